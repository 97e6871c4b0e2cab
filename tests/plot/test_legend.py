"""The colour bar: the whole palette, its ticks, and the colour of what has no value."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from plot.pictures import axes_names, covered, image, outside, texts, ticks
from regard.colour.scale import TIMES_UNIFORM, Scale
from regard.colour.shades import palette
from regard.plot.legend import bar_width, draw_bar
from regard.plot.sheet import Box, opened

WORDS = ("times an even share: 1 is an even spread", "× even share")


def drawn(scale=TIMES_UNIFORM, hidden="masked", size=(6.0, 5.0), height=3.0):
    """A sheet with a bar beside a box, as far right as its width allows."""
    with opened({}, size) as sheet:
        wide = sheet.free.width - bar_width(sheet, scale, hidden)
        beside = Box(sheet.free.left, sheet.free.bottom, wide, height)
        draw_bar(sheet, scale, beside, WORDS, hidden)
    return sheet


def test_the_bar_is_the_palette_from_below():
    axes = drawn().figure.axes[0]
    np.testing.assert_array_equal(image(axes)[:, 0], palette())
    assert axes.get_images()[0].origin == "lower"


def test_ticks_are_the_scales():
    axes = drawn().figure.axes[0]
    assert ticks(axes, "y") == ["≤ 0.1", "1", "10", "≥ 100"]
    np.testing.assert_allclose(axes.get_yticks(), [0, 1 / 3, 2 / 3, 1])
    assert ticks(drawn(Scale("x", 0.0, 1.0)).figure.axes[0], "y")[-1] == "1"


def test_a_short_bar_has_its_ends_only():
    assert ticks(drawn(height=0.8).figure.axes[0], "y") == ["≤ 0.1", "≥ 100"]


def test_it_says_what_it_means():
    assert axes_names(drawn().figure) == [WORDS[0], "masked"]
    assert axes_names(drawn(height=1.2).figure) == [WORDS[1], "masked"]


def test_the_colour_of_hidden_cells_stands_below():
    sheet = drawn()
    bar, swatch = sheet.figure.axes
    assert to_hex(swatch.get_facecolor()) == sheet.theme.hidden
    assert swatch.get_position().y1 < bar.get_position().y0


def test_nothing_hidden_no_swatch():
    figure = drawn(hidden="").figure
    assert len(figure.axes) == 1 and "masked" not in texts(figure)
    assert figure.axes[0].get_position().height * 5 == pytest.approx(3.0)


@pytest.mark.parametrize("hidden", ["", "masked", "not recorded"])
@pytest.mark.parametrize("size", [(2.5, 2.5), (6.0, 5.0)])
def test_its_width_is_enough(hidden, size):
    figure = drawn(Scale("output_norm", 0.0, 123.456), hidden, size, 1.4).figure
    assert outside(figure) == [] and covered(figure) == []
