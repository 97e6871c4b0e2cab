"""How soon a row lies over its picture: a real recording, a real browser, few patches."""

from __future__ import annotations

import pytest

from bench.sight import measure
from regard.errors import InputError


def test_a_small_round():
    one, heads, without, with_picture = measure(64, rounds=1)
    assert (one.what, heads.what) == ("one head", "heads of a layer")
    assert one.peer == "budget of 150 ms" and one.heads == 24 * 16
    assert without.ratio == 1.0 and with_picture.what == "opened with"
    assert one.median_ms <= heads.median_ms


def test_patches_that_are_no_square_are_refused():
    with pytest.raises(InputError, match="60 patches are no square"):
        measure(60)
