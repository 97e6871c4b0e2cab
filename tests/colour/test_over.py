"""Heat over a picture, and pictures made to fit."""

from __future__ import annotations

import numpy as np

from regard.colour.over import blended, resized
from regard.colour.shades import lightness, palette


def test_faint_heat_shows_the_picture_and_strong_heat_the_palette():
    pixels = np.full((1, 3, 3), (200, 40, 40), np.uint8)
    faint, strong, hidden = blended(pixels, np.array([[0.0, 1.0, np.nan]]))[0].astype(int)
    assert faint[0] > 2 * faint[1]  # still red
    assert np.abs(strong - palette()[-1].astype(int)).max() < 40
    assert hidden.tolist() == [70, 14, 14]  # 0.35 of it


def test_more_heat_is_never_darker_over_one_colour():
    for colour in ((0, 0, 0), (90, 90, 90), (255, 255, 255)):
        pixels = np.full((256, 3), colour, np.uint8)
        light = lightness(blended(pixels, np.linspace(0.35, 1, 256)))
        assert (np.diff(light) > -0.01).all()


def test_a_part_of_a_picture_has_its_mean_colour():
    dice = np.random.default_rng(0)
    picture = dice.integers(0, 256, (12, 20, 3), dtype=np.uint8)
    small = resized(picture, 3, 4)
    mean = picture.reshape(3, 4, 4, 5, 3).mean((1, 3))
    assert np.abs(small - mean).max() <= 0.5
    assert np.array_equal(resized(picture, 12, 20), picture)
    assert np.array_equal(resized(picture, 24, 40), picture.repeat(2, 0).repeat(2, 1))


def test_uneven_sizes_leave_nothing_out():
    white = np.full((7, 5, 3), 255, np.uint8)
    for high, wide in ((1, 1), (3, 2), (7, 5), (20, 13)):
        assert (resized(white, high, wide) == 255).all()
