"""`Recording.plot_…`: every picture of every kind of recording, and what cannot be drawn."""

from __future__ import annotations

import pytest
import torch

from plot.pictures import axes_names, image, texts, ticks
from regard.errors import InputError, UnavailableError
from regard.mask import Causal
from regard.recording import Memory, Recording
from support.recordings import WORDS, Chunk, in_memory, write, write_prompt


@pytest.fixture(scope="module")
def rec():
    return in_memory(prompts=2)[0]


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


def test_each_gives_a_figure(rec):
    from matplotlib.figure import Figure

    for figure in (
        rec.plot_head("L0H1"), rec.plot_row("L0H1", 3), rec.plot_grid(), rec.plot_entropy(),
    ):  # fmt: skip
        assert type(figure) is Figure


def test_the_usual_grid_is_the_overviews(rec):
    assert "tiny · off sinks" in texts(rec.plot_grid())


def test_a_head_by_layer_and_number(rec):
    assert axes_names(rec.plot_head("l0h1"))[0] == "tiny · L0H1"


def test_another_prompt_is_another_picture(rec):
    one, other = rec.plot_head("L0H1"), rec.plot_head("L0H1", prompt=1)
    assert (image(one.axes[0]) != image(other.axes[0])).any()
    assert axes_names(other)[1].startswith("prompt 1: <s>The cat")
    assert axes_names(rec.plot_entropy(prompt=-1))[1].startswith("prompt 1: ")


@pytest.mark.parametrize("draw", ["plot_grid", "plot_entropy"])
def test_a_prompt_that_is_not_there(rec, draw):
    with pytest.raises(InputError, match="prompt 7 does not exist; this recording has 0–1"):
        getattr(rec, draw)(prompt=7)


def test_a_head_that_is_not_there(rec):
    with pytest.raises(InputError, match="layer 9 does not exist"):
        rec.plot_head("L9H0")
    with pytest.raises(InputError, match="names no head"):
        rec.plot_row("nonsense", 0)


def test_finer_than_what_was_kept(rec):
    with pytest.raises(UnavailableError, match="budget of 1 kB"):
        rec.plot_head("L1H0", cell=3)


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


def test_a_long_row_that_sees_nothing():
    from regard.mask import Table

    seen = torch.tril(torch.ones(60, 60, dtype=torch.bool))
    seen[4] = False
    rec, _ = in_memory([f" t{n}" for n in range(60)], chunks=[Chunk((0, 60), (0, 60), Table(seen))])
    for raw in (False, True):
        assert any("row 4 sees 0 keys" in text for text in texts(rec.plot_row("L0H1", 4, raw=raw)))


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
