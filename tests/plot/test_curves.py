"""Entropy by layer: median and band are percentiles of the heads; gaps stay gaps."""

from __future__ import annotations

import numpy as np
import pytest

from plot.pictures import ABOUT, axes_names, ticks
from regard.plot import CAVEAT, entropy
from regard.plot.curves import spread
from regard.plot.sheet import DARK, LIGHT
from support.recordings import in_memory

RNG = np.random.default_rng(5)


def legend(figure):
    return [one.get_text() for one in figure.axes[0].get_legend().get_texts()]


def test_median_and_band_are_of_the_heads():
    given = RNG.random((4, 9))
    low, middle, high = spread(given)
    np.testing.assert_allclose(middle, np.median(given, axis=1))
    np.testing.assert_allclose(low, np.quantile(given, 0.1, axis=1))
    np.testing.assert_allclose(high, np.quantile(given, 0.9, axis=1))


def test_unknown_heads_do_not_count():
    found = spread(np.array([[0.2, np.nan, 0.4], [np.nan] * 3]))
    np.testing.assert_allclose(found[1, 0], 0.3)
    assert np.isnan(found[:, 1]).all()


def test_the_line_is_the_median_of_the_grid():
    rec, _ = in_memory(layers=3)
    figure = rec.plot_entropy()
    wanted = spread(rec.grid("normalized_entropy"))
    (line,) = figure.axes[0].get_lines()
    np.testing.assert_allclose(line.get_ydata(), wanted[1])
    assert line.get_xdata().tolist() == [0, 1, 2]
    edge = figure.axes[0].collections[0].get_paths()[0].vertices
    assert edge[:, 1].min() == pytest.approx(wanted[0].min())
    assert edge[:, 1].max() == pytest.approx(wanted[2].max())


def test_the_words():
    figure = entropy({"": RNG.random((4, 4))}, ABOUT, style={})
    found = axes_names(figure)
    assert found[0] == "tiny · entropy by layer" and CAVEAT in found
    assert "layer" in found and "normalised entropy" in found
    assert any(text.startswith("line: median of a layer's heads; band: 10–90 %") for text in found)
    assert legend(figure) == ["median", "10–90 %"]


def test_limits_and_ticks():
    axes = entropy({"": RNG.random((30, 9))}, ABOUT, style={}).axes[0]
    assert axes.get_ylim() == (0, 1) and axes.get_xlim() == (-0.5, 29.5)
    assert ticks(axes, "x")[:3] == ["L0", "L2", "L4"]
    assert ticks(axes, "y")[0] == "0.0" and ticks(axes, "y")[-1] == "1.0"


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)])
def test_every_stack_has_its_line_and_colour(dark, theme):
    grids = {"encoder": RNG.random((4, 8)), "cross": RNG.random((6, 8))}
    figure = entropy(grids, ABOUT, style={"dark": dark})
    lines = figure.axes[0].get_lines()
    assert legend(figure) == ["encoder", "cross"]
    assert [line.get_color() for line in lines] == list(theme.lines[:2])
    assert [len(line.get_xdata()) for line in lines] == [4, 6]


def test_a_layer_that_is_not_known_is_a_gap():
    given = RNG.random((5, 4))
    given[2] = np.nan
    (line,) = entropy({"": given}, ABOUT, style={}).axes[0].get_lines()
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, False, False]
