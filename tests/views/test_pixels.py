"""Codes at both ends of the scale, and pooling by hand."""

from __future__ import annotations

import numpy as np
import pytest

from regard.views.pixels import TILE, Pixels, join
from regard.views.uniform import encode_times, times_of_codes


def test_codes_run_along_the_scale_and_clamp():
    times = np.array([[0.0, 1e-9, 0.1, 1.0, 10.0, 100.0, 1e9, np.inf]])
    codes, nan = encode_times(times, np.zeros_like(times, bool))
    assert codes.tolist() == [[1, 1, 1, 86, 170, 255, 255, 255]]
    assert nan == 0


def test_codes_can_be_read_back():
    times = np.geomspace(0.1, 100, 1000)[None]
    codes = encode_times(times, np.zeros_like(times, bool)).codes.astype(int)
    back = times_of_codes()[codes - 1]
    assert np.max(np.abs(np.log(back / times))) <= np.log(1000) / 254 / 2 + 1e-9


@pytest.mark.parametrize("level", [1, 2, 3, 8])
@pytest.mark.parametrize("how", ["mean", "max"])
def test_pooling_is_the_definition(level, how):
    dice = np.random.default_rng(level)
    rows, keys = 13, 21
    seen = dice.random((rows, keys)) > 0.4
    seen[4] = False
    scores = np.where(seen, dice.normal(size=(rows, keys)), -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(np.exp(scores) / np.exp(scores).sum(1, keepdims=True))
    visible = seen.sum(1)
    top, left = 0, 0
    pixels = Pixels(level, top, left, how)
    for first, last in ((0, 5), (5, 6), (6, 13)):
        for start, stop in ((0, 8), (8, 21)):
            part = slice(first, last), slice(start, stop)
            pixels.fold(
                np.arange(first, last), start, (scores[part], weights[part]), visible[first:last]
            )
    found = pixels.codes().codes
    assert found.shape == (TILE, TILE)
    for y in range(-(-rows // level)):
        for x in range(-(-keys // level)):
            cell = np.s_[y * level : (y + 1) * level, x * level : (x + 1) * level]
            some = seen[cell]
            even = (some / np.maximum(visible, 1)[cell[0], None]).sum()
            times = (weights * visible[:, None])[cell].max()
            want = weights[cell].sum() / even if how == "mean" and even else times
            code = encode_times(np.array([[want]]), np.array([[not some.any()]])).codes[0, 0]
            assert abs(int(found[y, x]) - int(code)) <= 1, (y, x)
            assert (found[y, x] == 0) == (not some.any())  # hidden
    assert not found[-(-rows // level) :].any()
    assert not found[:, -(-keys // level) :].any()


def test_a_tile_that_is_seen_as_a_whole_is_counted_as_one_that_is_not():
    scores = np.zeros((4, 6), np.float32)
    weights, visible = np.full((4, 6), 1 / 6, np.float32), np.full(4, 6)
    pixels = Pixels(2, 0, 0, "mean")
    pixels.fold(np.arange(4), 0, (scores, weights), visible)
    one = encode_times(np.array([[1.0]]), np.array([[False]])).codes[0, 0]
    assert np.unique(pixels.codes().codes[:2, :3]).tolist() == [one]


def test_nan_is_not_taken_for_hidden_silently():
    scores = np.array([[np.nan, 0.0]])
    pixels = Pixels(1, 0, 0, "mean")
    pixels.fold(np.arange(1), 0, (scores, np.full((1, 2), np.nan)), np.array([2]))
    assert pixels.codes().nan == 2


def _folded(level, top, left, how, cells, visible):
    """The part of scores and weights that lies in one tile, folded in uneven pieces."""
    pixels, (scores, weights) = Pixels(level, top, left, how), cells
    rows, keys = (
        range(start, min(start + TILE * level, n))
        for start, n in zip((top, left), scores.shape, strict=True)
    )
    for first in range(rows.start, rows.stop, 100):
        for start in range(keys.start, keys.stop, 333):
            part = (
                slice(first, min(first + 100, rows.stop)),
                slice(start, min(start + 333, keys.stop)),
            )
            own = np.arange(first, part[0].stop)
            pixels.fold(own, start, (scores[part], weights[part]), visible[own])
    return pixels.sums()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("shape", [(1, 1), (257, 300), (512, 511), (600, 1023), (1024, 1024)])
@pytest.mark.parametrize("level", [1, 2])
def test_four_tiles_are_one_of_twice_the_tokens(level, shape, how):
    dice = np.random.default_rng(shape[1])
    seen = np.tri(*shape, k=shape[1] - shape[0] - 3) * (dice.random(shape) > 0.2) > 0
    scores = np.where(seen, dice.normal(size=shape), -np.inf)
    cells = scores, np.exp(scores) / np.maximum(np.exp(scores).sum(1, keepdims=True), 1e-9)
    visible, side = seen.sum(1), TILE * level
    quarters = {
        (y, x): _folded(level, y * side, x * side, how, cells, visible)
        for y in range(min(2, -(-shape[0] // side)))
        for x in range(min(2, -(-shape[1] // side)))
    }
    found = join(quarters, how)
    want = _folded(2 * level, 0, 0, how, cells, visible)
    np.testing.assert_array_equal(found.even == 0, want.even == 0)
    for mine, right in zip(found, want, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-6)
    assert np.abs(found.codes(how).codes.astype(int) - want.codes(how).codes).max() <= 1


def test_tiles_that_show_nothing_take_no_memory():
    nothing = Pixels(1, 0, 0, "mean").sums()
    assert nothing.nbytes == 0
    assert join({(0, 0): nothing, (1, 1): nothing}, "mean").nbytes == 0
    assert not nothing.codes("mean").codes.any()
    pixels = Pixels(1, 0, 0, "mean")
    pixels.fold(np.arange(1), 0, (np.zeros((1, 1)), np.ones((1, 1))), np.ones(1, int))
    assert pixels.sums().nbytes == 2 * 4 * TILE * TILE
    whole = join({(0, 0): nothing, (1, 1): pixels.sums()}, "mean")
    assert np.argwhere(whole.found).tolist() == [[TILE // 2, TILE // 2]]
