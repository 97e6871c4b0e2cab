"""What rows see, as runs of keys."""

from __future__ import annotations

import numpy as np

from regard.recording.visibility import Sight
from regard.views.sightlines import sightlines_of
from support.recordings import in_memory


def test_rows_that_follow_one_another_are_told_as_a_span():
    recording, _ = in_memory()
    sight = Sight(recording.prompts[0].held("L0"), 0)
    whole = sightlines_of(sight, np.arange(12)).as_dict()
    assert (whole["span"], whole["rows"], whole["counts"]) == ([0, 12], None, None)
    assert whole["edges"][:6] == [0, 1, 0, 2, 0, 3]
    some = sightlines_of(sight, np.array([2, 7])).as_dict()
    assert (some["span"], some["rows"], some["edges"]) == (None, [2, 7], [0, 3, 0, 8])
    none = sightlines_of(sight, np.zeros(0, np.int64)).as_dict()
    assert (none["span"], none["edges"]) == ([0, 0], [])
