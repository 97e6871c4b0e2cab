"""`Recording.plot_…`: every picture of every kind of recording, and what cannot be drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from plot.pictures import ABOUT, axes_names, covered, image, outside, texts, ticks
from regard.axes import Axis, Grid
from regard.errors import InputError, UnavailableError
from regard.mask import Causal
from regard.plot import entropy, grid
from regard.plot.sheet import DARK, LIGHT
from regard.recording import Memory, Recording
from support.recordings import HOSTILE, WORDS, Chunk, in_memory, sighted, write, write_prompt


@pytest.fixture(scope="module")
def rec():
    return in_memory(prompts=2)[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [(2.5, 2.5), (3.3, 3.3), (4.0, 8.0), (8.0, 6.0), (14.0, 3.5)])
@pytest.mark.parametrize("dark", [False, True])
def test_no_text_covers_another_or_leaves_the_sheet(size, dark):
    """Of every kind, for few and many tokens, long and hostile ones, few and many heads."""
    style, dice = {"size": size, "dark": dark}, np.random.default_rng(1)
    figures = []
    for words in (WORDS, [f" t{n}" for n in range(200)], HOSTILE,
                  [f" internationalization{n}" * 3 for n in range(40)]):  # fmt: skip
        rec, _ = in_memory(words)
        figures.append(rec.plot_head("L0H1", **style))
        figures += [
            rec.plot_row(label, row, **style) for label in ("L0H1", "L1H0") for row in (0, -1)
        ]
    for shape in ((1, 1), (12, 12), (30, 9), (80, 128)):
        values = dice.random(shape)
        values[0, 0] = np.nan
        figures.append(grid(values, "sink", ABOUT, words="a meaning", is_share=True, style=style))
        figures.append(entropy({"": values}, ABOUT, style=style))
    for figure in figures:
        assert covered(figure) == [] and outside(figure) == []
        assert all(text.isprintable() for text in texts(figure))
    rec, _ = sighted(Axis((Grid(4, 6, prefix=1, names=("class",)),)))
    theme = DARK if dark else LIGHT
    over = rec.plot_picture("L0H0", query=9, **style), rec.plot_heads_over_picture(9, **style)
    for figure in over:
        assert not outside(figure) and to_hex(figure.get_facecolor()) == theme.paper


@pytest.fixture(scope="module")
def stacks():
    """An encoder, a decoder and cross-attention from 6 rows to 9 keys."""
    store = Memory()
    write(store, WORDS[:9], layers=1, stack="encoder")
    for stack, kind, rows in (("decoder", "self", 9), ("cross", "cross", 6)):
        mask = Causal() if kind == "self" else None
        write_prompt(
            store, [Chunk((0, rows), (0, 9), mask)], stack=stack, kind=kind, tokens=False,
            note=False, query_tokens="tokens" if kind == "self" else "",
        )  # fmt: skip
    store.close()
    return Recording(store)


@pytest.mark.parametrize(
    ("draw", "given", "says"),
    [
        ("plot_grid", {"prompt": 7}, "prompt 7 does not exist; this recording has 0–1"),
        ("plot_entropy", {"prompt": 7}, "prompt 7 does not exist; this recording has 0–1"),
        ("plot_head", {"label": "L9H0"}, "layer 9 does not exist"),
        ("plot_row", {"label": "nonsense", "row": 0}, "names no head"),
        ("plot_head", {"label": "L1H0", "cell": 3}, "budget of 1 kB"),
    ],
)
def test_what_cannot_be_drawn(rec, draw, given, says):
    with pytest.raises((InputError, UnavailableError), match=says):
        getattr(rec, draw)(**given)


def test_another_prompt_is_another_picture(rec):
    one, other = rec.plot_head("L0H1"), rec.plot_head("L0H1", prompt=1)
    assert (image(one.axes[0]) != image(other.axes[0])).any()
    assert axes_names(rec.plot_head("l0h1"))[0] == axes_names(one)[0] == "tiny · L0H1"
    assert "tiny · off sinks" in texts(rec.plot_grid())  # as the overview has it
    assert axes_names(other)[1].startswith("prompt 1: <s>The cat")
    assert axes_names(rec.plot_entropy(prompt=-1))[1].startswith("prompt 1: ")


def test_nothing_recorded():
    store = Memory()
    store.note({"contents": "attention/1"})
    rec = Recording(store)
    for draw in (rec.plot_grid, rec.plot_entropy):
        with pytest.raises(InputError, match="nothing was recorded yet"):
            draw()


def test_cross_attention_has_as_many_rows_as_queries(stacks):
    figure = stacks.plot_head("cross.L0H1")
    axes = figure.axes[0]
    assert image(axes).shape[:2] == (6, 9) and axes.get_ylim() == (6, 0)
    assert "masked" not in texts(figure)  # every query sees every key
    assert ticks(axes, "y") == ["0", "1", "2", "3", "4", "5"]  # queries without texts
    assert "row 2 sees 9 keys; weight, linear" in texts(stacks.plot_row("cross.L0H1", 2))


def test_stacks(stacks):
    assert "tiny · cross, on sinks" in texts(stacks.plot_grid("sink", stack="cross"))
    with pytest.raises(InputError, match="stacks cross, decoder, encoder; give one"):
        stacks.plot_grid("sink")
    legend = stacks.plot_entropy().axes[0].get_legend()
    assert [one.get_text() for one in legend.get_texts()] == ["cross", "decoder", "encoder"]


def test_rows_that_see_nothing():
    """A mask that hides every key from some rows."""
    from regard.mask import Table

    seen = torch.tril(torch.ones(12, 12, dtype=torch.bool))
    seen[4] = False
    rec, _ = in_memory(chunks=[Chunk((0, 12), (0, 12), Table(seen))])
    figure = rec.plot_row("L0H1", 4)
    assert "row 4 sees 0 keys; weight, linear" in texts(figure)
    assert len(figure.axes[0].patches) == 0
    rec.plot_head("L0H1")


@pytest.mark.parametrize("count", [1, 2, 40, 41])
def test_odd_lengths(count):
    rec, _ = in_memory([f" t{n}" for n in range(count)], layers=1)
    figure = rec.plot_head("L0H1")
    assert image(figure.axes[0]).shape[:2] == (count, count)
    assert ticks(figure.axes[0], "x")[0] == ("␣t0" if count <= 40 else "0")
    rec.plot_row("L0H1", 0)
    rec.plot_grid("sink")
    rec.plot_entropy()


def test_without_texts_there_are_positions():
    store = Memory()
    store.note({"contents": "attention/1", "model": '{"name": "bare"}'})
    write_prompt(store, [Chunk((0, 8), (0, 8), Causal())], tokens=False)
    store.close()
    rec = Recording(store)
    assert ticks(rec.plot_head("L0H1").axes[0], "x") == [str(n) for n in range(8)]
    figure = rec.plot_row("L0H1", 5)
    assert axes_names(figure)[:2] == ["bare · L0H1 · row 5", "a text"]
    assert all(name.startswith("key ") for name in ticks(figure.axes[0], "y"))
