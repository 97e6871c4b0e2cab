"""Opening, indexing and following a recording."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from recording.conftest import record
from regard.errors import FileError, InputError
from regard.mask import Causal
from regard.recording import Memory, Reader, Recording, Writer
from regard.recording.schema import CONTENTS, Prompt
from support.recordings import Chunk, write_prompt, write_recording

SMALL = [Chunk((0, 40), (0, 40), Causal())]


def several() -> Recording:
    """Three stacks, two prompts, gaps among layers and heads."""
    store, _ = write_recording(chunks=SMALL, stack="encoder")
    for layer in (0, 1, 3):
        write_prompt(store, SMALL, stack="decoder", layer=layer, tokens=False, note=False)
    for layer in (0, 2):
        write_prompt(
            store, [Chunk((0, 40), (0, 25))], stack="cross", layer=layer, kind="cross",
            tokens=False, recorded=(1, 3), note=False,
        )  # fmt: skip
    write_prompt(store, SMALL, stack="decoder", prompt=1, seed=9)
    return Recording(store)


# ── what it says ─────────────────────────────────────────────────────────────────────────────


def test_a_file_opens_and_says_what_it_holds(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        write_recording(writer, chunks=SMALL)
        writer.note({"made": json.dumps({"regard": "0.1.0"}), "check": json.dumps({"rows": 3})})
    with regard.open(tmp_path / "a.regard") as rec:
        assert isinstance(rec, Recording) and isinstance(rec.store, Reader)
        assert rec.model == {"name": "synthetic"} and rec.made == {"regard": "0.1.0"}
        assert rec.check == {"rows": 3} and rec.plan == {}
        assert rec.damage == () and not rec.is_live
        assert rec.labels() == ["L0H0", "L0H1", "L0H2", "L0H3"] and len(rec) == 4
        assert "L0H1" in rec and "L0H9" not in rec
        assert [head.label for head in rec] == rec.labels()
        assert rec.stacks == {"": (1, 4)} and list(rec.places) == ["L0"]
        assert repr(rec) == "Recording(synthetic, 1 prompt, heads 1×4)"


def test_a_prompt_has_its_tokens_and_what_knock_outs_changed():
    rec = several()
    prompt = rec.prompts[0]
    assert len(rec.tokens) == 40 and rec.tokens == prompt.tokens
    assert prompt.ids.dtype == np.int64 and prompt.ids.shape == (40,)
    assert [flag == 1 for flag in prompt.flags] == [text == "." for text in prompt.tokens]
    assert (prompt.title, prompt.generated, prompt.next, prompt.finished) == ("a text", 0, (), True)
    assert list(prompt.streams) == ["tokens"] and len(prompt.streams["tokens"]) == 40
    assert [other.number for other in rec.prompts] == [0, 1] and prompt.bos == ""
    assert repr(prompt) == "PromptView(0, 'a text', 40 tokens)" and len(prompt) == 20
    numbers = dict.fromkeys(("delta_logit", "delta_logprob", "kl"), 0.5)
    numbers |= {f"typical_{n}": 0.0 for n in numbers}
    changes = {"L0H2": {"copies": True, "text": numbers, "copying": numbers}}
    rec.store.note({"knocked/1": json.dumps(changes)})
    again = Recording(rec.store)
    assert [other.knocked for other in again.prompts] == [{}, changes]


def test_the_models_note_says_how_many_layers_there_are():
    store, _ = write_recording(chunks=SMALL, layer=5)
    store.note({"model": json.dumps({"name": "m", "layers": 32, "heads": 6})})
    rec = Recording(store)
    assert rec.stacks == {"": (32, 6)} and rec.grid("entropy").shape == (32, 6)
    with pytest.raises(InputError, match="layer 40 does not exist; this recording has 5"):
        rec[40, 0]
    with pytest.raises(InputError, match="layer 4 was not recorded; this recording has 5"):
        rec["L4H0"]
    store.note({"model": json.dumps({"layers": 10**15, "heads": "many"})})
    assert Recording(store).stacks == {"": (6, 4)}


# ── heads by name ────────────────────────────────────────────────────────────────────────────


def test_heads_by_label_and_by_number():
    rec = several()
    for same in ("decoder.L3H1", "decoder.l3h1", "Decoder.L3H1", " decoder.L3H1 "):
        assert rec[same].label == "decoder.L3H1"
    assert rec["decoder", 3, 1] is rec["decoder.L3H1"]
    assert rec["cross", -1, -1].label == "cross.L2H3"
    assert rec["decoder", np.int64(1), np.int64(-4)].label == "decoder.L1H0"
    assert rec.prompts[1]["decoder.L0H1"].label == "decoder.L0H1"
    assert rec.prompts[1]["decoder.L0H1"] is not rec["decoder.L0H1"]
    for stack in ("", "vision", "a.b.*.c"):  # the only one needs no name
        only = Recording(write_recording(chunks=SMALL, stack=stack)[0])
        assert only[0, 2] is only["L0H2"] and only[-1, -1] is only["L0H3"]
        assert only["L0H2"].stack == stack and only.grid("entropy").shape == (1, 4)
        assert only[f"{stack}.L0H1" if stack else "L0H1"] is only[0, 1]


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("decoder.L40H0", "layer 40 does not exist; this recording has 0–1, 3"),
        ("decoder.L2H0", "layer 2 was not recorded; this recording has 0–1, 3"),
        ("decoder.L0H9", "head 9 does not exist; decoder.L0 has 0–3"),
        ("cross.L2H0", r"cross.L2H0 was not recorded; of cross.L2 there are heads 1, 3"),
        ("L0H0", "has the stacks cross, decoder, encoder; give one, as in"),
        ("vision.L0H0", "there is no stack 'vision'"),
        ("decoder.L0", r"names no head; give one such as 'cross.L0H1'"),
        ("nonsense", "names no head; give one such as"),
        ((0, 0), r"has the stacks cross, decoder, encoder; give one, as in \['cross', 0, 0\]"),
        (("decoder", -5, 0), "layer -5 does not exist"),
        (("decoder", 0, -5), "head -5 does not exist"), (5, "5 names no head"),
        ((0, 1.5), "names no head"), (("decoder", 0, None), "names no head"),
    ],
)  # fmt: skip
def test_wrong_names_are_answered_by_what_there_is(which, says):
    with pytest.raises(InputError, match=says):
        several()[which]


# ── what is no recording of attention ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("contents", "says"),
    [(f"attention/{n}", f"holds 'attention/{n}'; this regard reads up to '{CONTENTS}': ")
     for n in (4, 999)]
    + [(other, "not attention") for other in ("training/1", "", "attention/x", "attention/1/2")],
)  # fmt: skip
def test_other_contents_are_refused(contents, says):
    store = Memory()
    store.note({"contents": contents})
    with pytest.raises(FileError, match=says):
        Recording(store)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileError, match=r"other\.regard: holds no attention"):
        regard.open(record(tmp_path / "other.regard"))
    with pytest.raises(FileError, match="no such file"):
        regard.open(tmp_path / "none.regard")
    store, made = write_recording(chunks=SMALL)
    store.note({"place/0/L1": made.place.to_json()})
    with pytest.raises(FileError, match="the note of 'L1' is about 'L0'"):
        Recording(store)


# ── unfinished and damaged ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("contents", [CONTENTS, "attention/1"])
def test_an_empty_recording_opens(contents):
    store = Memory()
    store.note({"contents": contents})
    rec = Recording(store)
    assert len(rec) == 0 and list(rec) == [] and rec.tokens == [] and rec.labels() == []
    assert rec.places == {} and rec.stacks == {} and rec.is_live and rec.prompts == []
    assert repr(rec) == "Recording(a model, 0 prompts, nothing yet)"
    with pytest.raises(InputError, match="nothing was recorded yet"):
        rec["L0H0"]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_prompt_without_heads_names_those_that_have_some(stopped):
    store, _ = write_recording(chunks=[Chunk((0, 9), (0, 9))])
    store.note({f"prompt/{n}": Prompt(1).to_json() for n in (1, 2)})
    write_prompt(store, [Chunk((0, 9), (0, 9))], prompt=3)
    if stopped:
        store.close()
    rec = Recording(store)
    why = ": the recording was stopped before the first" if stopped else " so far"
    says = f"no head of prompt 1 was recorded{why}; those of prompts 0, 3 were"
    assert (rec.prompt(0).why_not, rec.prompt(1).why_not) == ("", says)
    assert repr(rec.prompt(1)) == "PromptView(1, '', 1 token)"
    asks: list[Callable[[Any], Any]] = [
        lambda prompt: prompt["L0H0"], lambda prompt: prompt["x", 0, 0],
        lambda prompt: prompt.grid("sink"),
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(InputError, match=says):
            ask(rec.prompt(1))


def test_a_growing_recording_is_followed(tmp_path):
    full, made = write_recording(chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    with Writer(tmp_path / "a.regard") as writer:
        writer.note({"contents": CONTENTS})
        rec = regard.open(tmp_path / "a.regard")
        assert rec.is_live and not rec.refresh() and len(rec) == 0
        writer.note({"place/0/L0": made.place.to_json(), "prompt/0": Prompt(90).to_json()})
        assert rec.refresh() and rec["L0H0"].recorded == range(0)
        for start in (0, 30, 60):
            for name, entry in full.entries.items():
                if name.endswith(f"/{start}"):
                    writer.add(name, full.words(name), entry.metadata)
            assert rec.refresh()
            head = rec["L0H3"]
            assert head.recorded == range(start + 30)
            assert head.exact, head.why_not  # the keys that are missing are hidden from these rows
            wanted = made.truth.weights()[3, : start + 30]
            np.testing.assert_allclose(np.asarray(head), wanted, atol=1e-6)
            assert head.entropy().shape == (start + 30,)
        assert not rec.refresh()
    assert not rec.is_live


def without(full: Memory, *lost: str) -> Recording:
    """The same, some tensors of its place gone."""
    store = Memory()
    for name, entry in full.entries.items():
        if name not in [f"P0/L0/{what}" for what in lost]:
            store.add(name, full.words(name), entry.metadata)
    store.note(full.metadata)
    return Recording(store)


def test_keys_that_are_missing_but_needed_make_it_inexact():
    full, _ = write_recording(chunks=[Chunk((0, 90), (0, 90))], pieces=30)
    head = without(full, "k/60")["L0H0"]
    assert not head.exact and head.why_not == "k ends at key 60 of 90 (unfinished or damaged)"
    head = without(full, "q/0", "q/30", "q/60")["L0H0"]
    assert head.why_not == "q is missing (the recording is unfinished or damaged)"


@pytest.mark.parametrize("lost", ["q/30", "lse/30", "entropy/30", "top_keys/0"])
def test_rows_behind_a_gap_are_left_out(lost):
    full, made = write_recording(chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    head = without(full, lost)["L0H1"]
    rows = 90 if lost.startswith("top") else 30  # what is missing altogether is just not there
    assert head.recorded == range(rows) and head.exact
    np.testing.assert_allclose(np.asarray(head), made.truth.weights()[1, :rows], atol=1e-6)


def test_bins_may_be_ragged_at_the_end_of_any_piece():
    full, _ = write_recording(chunks=[Chunk((0, 50), (0, 50), Causal())], row_bin=8)
    names = [name for name in full.entries if name.startswith("P0/L0/entropy")]
    rows = np.arange(200, dtype=np.float32).reshape(4, 50)
    rec = without(full, *(name.removeprefix("P0/L0/") for name in names))
    for start, stop in ((0, 20), (20, 34), (34, 50)):
        bins = np.add.reduceat(rows[:, start:stop], np.arange(0, stop - start, 8), axis=1)
        rec.store.add(f"P0/L0/entropy/{start}", bins, {"tokens": str(stop - start)})
    stored = Recording(rec.store)["L0H1"].stored["entropy"]
    edges = [0, 8, 16, 20, 28, 34, 42, 50]
    assert stored.edges.tolist() == edges
    means = [rows[1, a:b].mean() for a, b in itertools.pairwise(edges)]
    np.testing.assert_allclose(stored.values, means)
