"""Codes at both ends of the scale, and pooling by hand."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import TIMES_UNIFORM
from regard.viewer.pixels import HIDDEN, TILE, Pixels, encode_times


def test_codes_run_along_the_scale_and_clamp():
    times = np.array([[0.0, 1e-9, 0.1, 1.0, 10.0, 100.0, 1e9, np.inf]])
    codes, nan = encode_times(times, np.zeros_like(times, bool))
    assert codes.tolist() == [[1, 1, 1, 86, 170, 255, 255, 255]]
    assert nan == 0


def test_hidden_has_a_code_of_its_own_and_nan_is_counted():
    times = np.array([[5.0, np.nan, np.nan, 0.0]])
    codes, nan = encode_times(times, np.array([[True, True, False, False]]))
    assert codes.tolist() == [[HIDDEN, HIDDEN, HIDDEN, 1]]
    assert nan == 1


def test_codes_can_be_read_back():
    times = np.geomspace(0.1, 100, 1000)[None]
    codes = encode_times(times, np.zeros_like(times, bool)).codes.astype(np.float64)
    back = TIMES_UNIFORM.low * (TIMES_UNIFORM.high / TIMES_UNIFORM.low) ** ((codes - 1) / 254)
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
            assert (found[y, x] == HIDDEN) == (not some.any())
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
