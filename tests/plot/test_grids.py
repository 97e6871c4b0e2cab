"""Grids: numbers and colours are those of the statistic, whatever the size of the model."""

from __future__ import annotations

import numpy as np
import pytest

from plot.pictures import ABOUT, axes_names, image, texts, ticks
from regard.colour.shades import codes, is_light, palette
from regard.plot import CAVEAT, grid
from regard.plot.sheet import LIGHT
from regard.recording import STATISTICS
from support.recordings import in_memory


@pytest.fixture(scope="module")
def rec():
    return in_memory(layers=3)[0]


def values(layers, heads):
    """Shares with a layer that was not recorded."""
    found = np.random.default_rng(0).random((layers, heads))
    found[1] = np.nan
    return found


def cell_texts(axes):
    return {
        (round(one.get_position()[1] - 0.5), round(one.get_position()[0] - 0.5)): one
        for one in axes.texts
    }


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_numbers_are_the_grids(rec, statistic):
    wanted, axes = rec.grid(statistic), rec.plot_grid(statistic).axes[0]
    written = cell_texts(axes)
    assert set(written) == {tuple(at) for at in np.argwhere(np.isfinite(wanted)).tolist()}
    for at, text in written.items():
        assert float(text.get_text()) == pytest.approx(wanted[at], rel=0.01, abs=0.0051)


def test_colours_are_shares_of_one():
    given = values(4, 5)
    axes = grid(given, "sink", ABOUT, is_share=True, style={}).axes[0]
    known = np.isfinite(given)
    np.testing.assert_array_equal(image(axes)[known], palette()[codes(given[known])])
    assert {bytes(one).hex() for one in image(axes)[~known]} == {LIGHT.hidden[1:]}


def test_other_numbers_range_as_far_as_they_go():
    figure = grid([[1.0, 20.0], [300.0, 0.0]], "max_score", ABOUT, style={})
    assert (image(figure.axes[0])[1, 0] == palette()[255]).all()
    assert "one head a cell; max_score, linear 0–300" in texts(figure)
    assert [one.get_text() for one in figure.axes[0].texts] == ["1", "20", "300", "0"]


def test_figures_read_on_their_cells():
    given = values(4, 5)
    for at, text in cell_texts(grid(given, "x", ABOUT, is_share=True, style={}).axes[0]).items():
        assert text.get_color() == ("#000000" if is_light(int(codes(given[at]))) else "#ffffff")


@pytest.mark.parametrize(
    ("shape", "numbered"), [((16, 16), True), ((17, 16), False), ((16, 17), False)]
)
def test_cells_have_numbers_up_to_16_by_16(shape, numbered):
    axes = grid(np.zeros(shape), "sink", ABOUT, is_share=True, style={}).axes[0]
    assert len(axes.texts) == (256 if numbered else 0)


def test_numbers_that_would_not_be_legible_are_left_out():
    figure = grid(np.zeros((16, 16)), "sink", ABOUT, is_share=True, style={"size": (2.5, 2.5)})
    assert figure.axes[0].texts == [] or len(figure.axes[0].texts) == 0


def test_the_words(rec):
    found = axes_names(rec.plot_grid("previous"))
    assert found[:2] == ["tiny · on the token before", "<s>The cat sat on the mat.⏎It slept the"]
    assert f"on the token before: {STATISTICS['previous'].words}" in found
    assert "one head a cell; on the token before, linear 0–1" in found and CAVEAT in found
    assert "layer" in found and "head" in found


def test_layers_downwards_heads_across():
    axes = grid(values(3, 5), "sink", ABOUT, style={}).axes[0]
    assert ticks(axes, "y") == ["L0", "L1", "L2"]
    assert ticks(axes, "x") == ["H0", "H1", "H2", "H3", "H4"]
    assert axes.get_ylim() == (3, 0) and axes.get_xlim() == (0, 5)


def test_what_is_not_recorded_is_said():
    assert "not recorded" in texts(grid(values(3, 3), "sink", ABOUT, style={}))
    assert "not recorded" not in texts(grid(np.ones((2, 2)), "sink", ABOUT, style={}))


def test_nothing_known_at_all():
    figure = grid(np.full((2, 2), np.nan), "delimiter", ABOUT, is_share=True, style={})
    assert "not recorded" in texts(figure) and len(figure.axes[0].texts) == 0


def test_a_stack_is_named():
    assert "tiny · cross, sink" in texts(grid([[0.5]], "sink", ABOUT, stack="cross", style={}))
