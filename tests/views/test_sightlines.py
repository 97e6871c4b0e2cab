"""What rows see, as runs of keys."""

from __future__ import annotations

import numpy as np
import pytest

from regard.mask import Causal, Window
from regard.recording.visibility import Sight, seen_cells
from regard.views.sightlines import sightlines_of
from support.recordings import Chunk, in_memory


@pytest.mark.parametrize("mask", [None, Causal(), Causal() & (Window(1) | ~Window(6))])
def test_runs_are_what_the_mask_allows(mask):
    recording, _ = in_memory(chunks=[Chunk((0, 12), (0, 12), mask)])
    sight = Sight(recording.prompts[0].held("L0"), 1)
    lines = sightlines_of(sight, np.arange(12))
    seen = seen_cells(sight, np.arange(12), np.arange(12))
    cells = np.arange(144.0).reshape(12, 12)
    assert lines.cells == seen.sum()
    np.testing.assert_array_equal(lines.chosen(cells, 0, 12), cells[seen])
    np.testing.assert_array_equal(lines.chosen(cells[3:5], 3, 5), cells[3:5][seen[3:5]])


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
