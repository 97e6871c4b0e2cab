"""Maps of heads: colours at chosen cells, tokens on the axes, words, at every size."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from plot.pictures import axes_names, image, texts, ticks
from regard.colour.scale import times_uniform_of
from regard.colour.shades import codes, palette
from regard.mask import Causal
from regard.plot import CAVEAT
from regard.plot.maps import shade
from regard.plot.sheet import DARK, LIGHT, Sheet, settings
from support.recordings import WORDS, Chunk, in_memory


@pytest.fixture(scope="module")
def short():
    """Twelve tokens, and the truth of the first layer."""
    rec, made = in_memory()
    return rec, made[0, 0].truth.weights()


@pytest.fixture(scope="module")
def long():
    """Two hundred tokens."""
    rec, made = in_memory([f" t{n}" for n in range(200)])
    return rec, made[0, 0].truth.weights()


def test_colours_are_times_uniform_on_the_palette(short):
    rec, truth = short
    found = image(rec.plot_head("L0H1").axes[0])
    times = truth[1] * np.arange(1, 13)[:, None]
    wanted = palette()[codes(times_uniform_of(12).shares(times))]
    seen = np.tri(12, dtype=bool)
    # a weight on the border of two codes may fall to either side of it
    away = np.abs(found[seen].astype(int) - wanted[seen]).max(-1)
    assert found.shape == (12, 12, 3) and (away == 0).mean() > 0.95 and away.max() <= 30


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)])
def test_masked_cells_are_neutral(short, dark, theme):
    rec, _ = short
    found = image(rec.plot_head("L0H1", dark=dark).axes[0])
    hidden = (255 * np.array(to_rgb(theme.hidden))).round()
    assert (found[~np.tri(12, dtype=bool)] == hidden).all()
    assert (found[0, 0] == palette()[codes(times_uniform_of(12).shares(1.0))]).all()


def test_raw_colours_are_weights(short):
    rec, truth = short
    figure = rec.plot_head("L0H1", raw=True)
    seen = np.where(np.tri(12, dtype=bool), truth[1], -1)
    heaviest = np.unravel_index(seen.argmax(), seen.shape)
    assert (image(figure.axes[0])[heaviest] == palette()[255]).all()
    assert f"one token a cell; weight, linear 0–{seen.max():.3g}" in texts(figure)
    assert "weight" in texts(figure) and "× even share" not in " ".join(texts(figure))


def test_the_words(short):
    rec, _ = short
    figure = rec.plot_head("L0H1")
    found = axes_names(figure)
    assert found[0] == "tiny · L0H1"
    assert found[1] == "<s>The cat sat on the mat.⏎It slept the"
    assert (
        "one token a cell; × even share (at most 12 keys), log 0.1–12" in found and CAVEAT in found
    )
    assert "key: what is looked at" in found and "query: who looks" in found
    assert "times an even share: 1 is an even spread" in found and "masked" in found
    assert figure.get_label().splitlines() == [
        "tiny · L0H1", "one token a cell; × even share (at most 12 keys), log 0.1–12", CAVEAT,
    ]  # fmt: skip


def test_short_texts_have_their_tokens_on_both_axes(short):
    rec, _ = short
    axes = rec.plot_head("L0H1").axes[0]
    wanted = [token.replace(" ", "␣").replace("\n", "⏎") for token in WORDS]
    assert ticks(axes, "x") == ticks(axes, "y") == wanted
    np.testing.assert_allclose(axes.get_xticks(), np.arange(12) + 0.5)
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {90.0}


def test_long_texts_have_positions(long):
    rec, _ = long
    axes = rec.plot_head("L0H1").axes[0]
    assert ticks(axes, "x")[:3] == ["0", "20", "40"]
    assert axes.get_xlim() == (0, 200) and axes.get_ylim() == (200, 0)
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0.0}


@pytest.mark.parametrize(
    ("options", "words", "side"),
    [
        ({"cell": 16}, "mean of 16×16 tokens a cell; × even share, log 0.1–100", 13),
        ({"cell": 10, "how": "max"}, "max of 10×10 tokens a cell; × even share, log 0.1–100", 20),
        ({"size": (3.0, 3.0), "dpi": 40}, "mean of 4×4 tokens a cell; × even share", 50),
    ],
)
def test_pooled_cells_say_so(long, options, words, side):
    rec, _ = long
    figure = rec.plot_head("L0H1", **options)
    assert any(text.startswith(words) for text in texts(figure))
    assert image(figure.axes[0]).shape[:2] == (side, side)


def test_ragged_cells_are_cut_where_the_text_ends(long):
    rec, _ = long
    axes = rec.plot_head("L0H1", cell=16).axes[0]
    assert axes.get_images()[0].get_extent() == [0, 208, 208, 0]
    assert axes.get_xlim() == (0, 200)


def test_cells_are_squares(short, long):
    for rec, _ in (short, long):
        figure = rec.plot_head("L0H1", size=(9.0, 5.0))
        box = figure.axes[0].get_position()
        assert box.width * 9 == pytest.approx(box.height * 5)


def test_recorded_rows_only():
    chunks = [Chunk((0, 200), (0, 200), Causal())]
    rec, _ = in_memory([f" t{n}" for n in range(200)], chunks=chunks, rows=(190, 200))
    axes = rec.plot_head("L0H1").axes[0]
    assert axes.get_ylim() == (200, 190)
    assert ticks(axes, "y") == [str(n) for n in range(190, 200)]


def test_a_head_without_weights_is_drawn_as_it_was_kept(long):
    rec, _ = long
    figure = rec.plot_head("L1H0")
    assert "mean of 16×16 tokens a cell; × even share, log 0.1–100" in texts(figure)


def test_a_dollar_is_a_dollar():
    rec, _ = in_memory(["It", " cost", " $", "5", " and", " $", "6"])
    figure = rec.plot_head("L0H1")
    assert axes_names(figure)[1] == "It cost $5 and $6"
    figure.canvas.draw()  # no formula that cannot be read


def test_shades():
    with settings():
        sheet = Sheet((4.0, 4.0), 80, False)
    found = shade([[0.0, 1.0], [np.nan, 7.0]], sheet)
    assert found.dtype == np.uint8 and found[0, 0].tolist() == palette()[0].tolist()
    assert found[0, 1].tolist() == found[1, 1].tolist() == palette()[255].tolist()
    assert bytes(found[1, 0]).hex() == LIGHT.hidden[1:]
