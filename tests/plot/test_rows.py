"""Pictures of rows: bars of the heaviest keys, curves of long rows, words at every size."""

from __future__ import annotations

import numpy as np
import pytest

from plot.pictures import axes_names, texts, ticks
from regard.plot import CAVEAT
from support.recordings import in_memory


@pytest.fixture(scope="module")
def short():
    return in_memory()


@pytest.fixture(scope="module")
def long():
    return in_memory([f" t{n}" for n in range(200)])


def bars(axes):
    return [patch.get_width() for patch in axes.patches]


def test_bars_are_the_heaviest_keys(short):
    rec, made = short
    weights = made[0, 0].truth.weights()[1][11]
    axes = rec.plot_row("L0H1", -1).axes[0]
    found = bars(axes)
    np.testing.assert_allclose(found, np.sort(weights)[::-1][: len(found)], rtol=1e-4)
    assert [float(text.get_text()) for text in axes.texts] == pytest.approx(found, abs=6e-4)


def test_bars_have_the_token_and_which_key(short):
    rec, made = short
    best = int(made[0, 0].truth.weights()[1][11].argmax())
    first = ticks(rec.plot_row("L0H1", 11).axes[0], "y")[0]
    assert first.endswith(f"({best})")
    names = set(ticks(rec.plot_row("L0H1", 11).axes[0], "y"))
    assert names & {"⏎ (8)", "␣mat (6)", "␣cat (2)", "<s> (0)", ". (7)", "The (1)"}


def test_faint_keys_have_no_bar(short):
    rec, _ = short
    assert min(bars(rec.plot_row("L0H1", 11).axes[0])) >= 0.0005


def test_the_title_says_which_row_and_token(short):
    rec, _ = short
    found = axes_names(rec.plot_row("L0H1", -6))
    assert found[0] == "tiny · L0H1 · row 6 “␣mat”"
    assert "row 6 sees 7 keys; weight, linear" in found and CAVEAT in found
    assert any(" heaviest keys hold " in text for text in found)
    alone = texts(rec.plot_row("L0H1", 0))
    assert "row 0 sees 1 key; weight, linear" in alone
    assert "the heaviest key holds 1.000 of the row's weight; in brackets: which key" in alone


def test_a_long_row_is_a_curve_as_well(long):
    rec, made = long
    weights = made[0, 0].truth.weights()[1][150]
    figure = rec.plot_row("L0H1", 150)
    curve, below = figure.axes
    line, even, dots = curve.get_lines()
    found = np.asarray(line.get_ydata())
    np.testing.assert_allclose(
        found[:151][weights[:151] > 1e-5], weights[weights > 1e-5], rtol=1e-3
    )
    assert np.isnan(found[151:]).all()
    assert even.get_ydata()[0] == pytest.approx(1 / 151)
    assert set(np.asarray(dots.get_xdata()) - 0.5) <= set(np.argsort(-weights)[:8].tolist())
    assert curve.get_yscale() == "log" and curve.get_xlim() == (0, 200)
    assert 1 <= len(bars(below)) <= 8


def test_what_a_curve_says(long):
    rec, _ = long
    found = axes_names(rec.plot_row("L0H1", 150))
    assert (
        "row 150 sees 151 keys; curve: one key a point, weight, log; "
        "dashed: an even spread, 0.00662; dots: the heaviest keys"
    ) in found
    assert "key" in found and "weight" in found


def test_a_raw_curve_is_linear(long):
    rec, made = long
    figure = rec.plot_row("L0H1", 150, raw=True)
    curve = figure.axes[0]
    assert curve.get_yscale() == "linear" and curve.get_ylim()[0] == 0
    assert curve.get_ylim()[1] > made[0, 0].truth.weights()[1][150].max()
    assert any("weight, linear; dashed" in text for text in texts(figure))


def test_masked_keys_are_grey(long):
    rec, _ = long
    (grey,) = rec.plot_row("L0H1", 150).axes[0].collections
    across = grey.get_paths()[0].vertices[:, 0]
    assert (across.min(), across.max()) == (151.5, 199.5)
    assert rec.plot_row("L0H1", 199).axes[0].collections[0].get_paths() == []


def test_a_very_long_row_says_how_it_is_pooled():
    rec, _ = in_memory([f" t{n}" for n in range(1002)], layers=1)
    figure = rec.plot_row("L0H1", -1, size=(4.0, 4.0))
    assert any("curve: max of 2 keys a point" in text for text in texts(figure))
    assert len(figure.axes[0].get_lines()[0].get_ydata()) == 501


def test_of_a_head_that_is_not_exact_only_bars(long):
    rec, _ = long
    figure = rec.plot_row("L1H0", 150)
    assert len(figure.axes) == 1 and len(bars(figure.axes[0])) <= 8
    assert any("only the heaviest are known: it did not fit" in text for text in texts(figure))
