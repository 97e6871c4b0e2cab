"""Opening, indexing and following a recording."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import regard
from recording.conftest import record
from regard.errors import FileError, InputError
from regard.mask import Causal
from regard.recording import Folder, Memory, Reader, Recording, Writer
from regard.recording.schema import CONTENTS, Place, Prompt
from support.recordings import Chunk, write_prompt, write_rank, write_recording

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


def test_a_prompt_has_its_tokens():
    rec = several()
    one = rec.prompts[0]
    assert len(rec.tokens) == 40 and rec.tokens == one.tokens
    assert one.ids.dtype == np.int64 and one.ids.shape == (40,)
    assert all(
        (flag == 1) == (text == ".") for flag, text in zip(one.flags, one.tokens, strict=True)
    )
    assert (one.title, one.generated, one.next, one.finished) == ("a text", 0, (), True)
    assert list(one.streams) == ["tokens"] and len(one.streams["tokens"]) == 40
    assert len(rec.prompts) == 2 and rec.prompts[1].number == 1
    assert repr(one) == "PromptView(0, 'a text', 40 tokens)" and one.bos == "" and len(one) == 20


def test_the_models_own_word_tells_how_many_layers_there_are():
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
    assert (
        rec["decoder", 3, 1] is rec["decoder.L3H1"] and rec["cross", -1, -1].label == "cross.L2H3"
    )
    assert rec["decoder", np.int64(1), np.int64(-4)].label == "decoder.L1H0"
    store, _ = write_recording(chunks=SMALL)
    only = Recording(store)
    assert only[0, 2] is only["L0H2"] and only[-1, -1].label == "L0H3"
    assert rec.prompts[1]["decoder.L0H1"].label == "decoder.L0H1"
    assert rec.prompts[1]["decoder.L0H1"] is not rec["decoder.L0H1"]


def test_one_stack_needs_no_name():
    store, _ = write_recording(chunks=SMALL, stack="vision")
    rec = Recording(store)
    assert rec[0, 1].label == rec["L0H1"].label == "vision.L0H1" and rec.grid("entropy").shape == (
        1,
        4,
    )
    store, _ = write_recording(chunks=SMALL, stack="a.b.*.c")
    assert Recording(store)["a.b.*.c.L0H1"].stack == "a.b.*.c"


@pytest.mark.parametrize(
    ("which", "said"),
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
        (("decoder", 0, -5), "head -5 does not exist"),
        (5, "5 names no head"),
        ((0, 1.5), "names no head"),
        (("decoder", 0, None), "names no head"),
    ],
)
def test_wrong_names_are_told_what_there_is(which, said):
    with pytest.raises(InputError, match=said):
        several()[which]


# ── what is no recording of attention ────────────────────────────────────────────────────────


def test_a_file_of_other_tensors_is_refused(tmp_path):
    path = record(tmp_path / "other.regard")
    with pytest.raises(FileError, match=r"other\.regard: holds no attention"):
        regard.open(path)


@pytest.mark.parametrize("said", ["attention/4", "attention/999"])
def test_newer_contents_are_refused(said):
    store = Memory()
    store.note({"contents": said})
    with pytest.raises(FileError, match=f"holds '{said}'; this regard reads up to '{CONTENTS}': "):
        Recording(store)


@pytest.mark.parametrize("said", ["training/1", "", "attention/x", "attention/1/2"])
def test_other_contents_are_refused(said):
    store = Memory()
    store.note({"contents": said})
    with pytest.raises(FileError, match="not attention"):
        Recording(store)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        regard.open(tmp_path / "none.regard")


# ── unfinished and damaged ───────────────────────────────────────────────────────────────────


def test_an_empty_recording_opens():
    store = Memory()
    store.note({"contents": CONTENTS})
    rec = Recording(store)
    assert len(rec) == 0 and list(rec) == [] and rec.tokens == [] and rec.labels() == []
    assert rec.places == {} and rec.stacks == {} and rec.is_live
    assert repr(rec) == "Recording(a model, 0 prompts, nothing yet)"
    with pytest.raises(InputError, match="nothing was recorded yet"):
        rec["L0H0"]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_prompt_without_heads_says_so_and_which_have_some(stopped):
    store, _ = write_recording(chunks=[Chunk((0, 9), (0, 9))])
    store.note({f"prompt/{n}": Prompt(1).to_json() for n in (1, 2)})
    write_prompt(store, [Chunk((0, 9), (0, 9))], prompt=3)
    if stopped:
        store.close()
    rec = Recording(store)
    why = ": the recording was stopped before the first" if stopped else " so far"
    words = f"no head of prompt 1 was recorded{why}; those of prompts 0, 3 were"
    assert (rec.prompt(0).why_not, rec.prompt(1).why_not) == ("", words)
    assert repr(rec.prompt(1)) == "PromptView(1, '', 1 token)"
    for ask in (lambda one: one["L0H0"], lambda one: one["x", 0, 0], lambda one: one.grid("sink")):
        with pytest.raises(InputError, match=words):
            ask(rec.prompt(1))


def test_a_growing_recording_is_followed(tmp_path):
    _, made = write_recording(chunks=[Chunk((0, 90), (0, 90), Causal())])
    full, _ = write_recording(chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    writer = Writer(tmp_path / "a.regard")
    writer.note({"contents": CONTENTS})
    rec = regard.open(tmp_path / "a.regard")
    assert rec.is_live and not rec.refresh() and len(rec) == 0
    writer.note({"place/0/L0": made.place.to_json(), "prompt/0": Prompt(90).to_json()})
    assert rec.refresh() and rec["L0H0"].recorded == range(0)
    seen = []
    for start in (0, 30, 60):
        for name, entry in full.entries.items():
            if name.endswith(f"/{start}"):
                writer.add(name, full.words(name), entry.metadata)
        assert rec.refresh()
        head = rec["L0H3"]
        seen.append(len(head.recorded))
        assert head.exact, head.why_not  # the keys that are missing are hidden from these rows
        wanted = made.truth.weights()[3, : start + 30]
        np.testing.assert_allclose(np.asarray(head), wanted, atol=1e-6)
        assert head.entropy().shape == (start + 30,)
    assert seen == [30, 60, 90] and not rec.refresh()
    writer.close()
    assert not regard.open(tmp_path / "a.regard").is_live


def test_keys_that_are_missing_but_needed_make_it_inexact():
    full, _ = write_recording(chunks=[Chunk((0, 90), (0, 90))], pieces=30)
    store = Memory()
    for name, entry in full.entries.items():
        if name != "P0/L0/k/60":
            store.add(name, full.words(name), entry.metadata)
    store.note(full.metadata)
    head = Recording(store)["L0H0"]
    assert not head.exact and head.why_not == "k ends at key 60 of 90 (unfinished or damaged)"


@pytest.mark.parametrize("gone", ["q/30", "lse/30", "entropy/30", "top_keys/0"])
def test_rows_behind_a_gap_are_left_out(gone):
    full, made = write_recording(chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    store = Memory()
    for name, entry in full.entries.items():
        if not name.endswith(f"L0/{gone}"):
            store.add(name, full.words(name), entry.metadata)
    store.note(full.metadata)
    head = Recording(store)["L0H1"]
    rows = 90 if gone.startswith("top") else 30  # what is missing altogether is just not there
    assert head.recorded == range(rows) and head.exact
    np.testing.assert_allclose(np.asarray(head), made.truth.weights()[1, :rows], atol=1e-6)


def test_a_torn_file_opens_with_what_is_there(tmp_path):
    path = tmp_path / "a.regard"
    write_recording(path, chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    size = path.stat().st_size
    whole = [head.dense() for head in regard.open(path)]
    for cut in range(0, size, 997):
        os.truncate(path, size - cut)
        try:
            rec = regard.open(path)
        except FileError:
            continue
        for head in rec:
            if head.exact:
                wanted = whole[head.head][: len(head.recorded)]
                np.testing.assert_array_equal(head.dense(), wanted)


def test_a_damaged_tensor_is_told_when_asked_for(tmp_path):
    path = tmp_path / "a.regard"
    write_recording(path, chunks=SMALL)
    frame = Reader(path).entries["P0/L0/q/0"].frame
    raw = bytearray(path.read_bytes())
    raw[frame.data + 5] ^= 1
    path.write_bytes(raw)
    head = regard.open(path)["L0H0"]
    assert head.entropy().shape == (40,)
    with pytest.raises(FileError, match=r"'P0/L0/q/0' at byte .* is damaged"):
        head[3]


# ── ranks ────────────────────────────────────────────────────────────────────────────────────


def ranks(folder, **options):
    """Rows 0 … 99 by rank 0 and 100 … 159 by rank 1; each saw its own keys first."""
    chunks = [Chunk((0, 100), (0, 100), Causal()), Chunk((100, 160), (0, 160), Causal())]
    whole, made = write_recording(chunks=chunks, pieces=20, **options)
    for rank in range(2):
        write_rank(folder, rank, chunks, pieces=20, **options)
    return Recording(whole), made


def test_ranks_are_one_recording(tmp_path):
    whole, _ = ranks(tmp_path)
    rec = regard.open(tmp_path)
    assert isinstance(rec.store, Folder) and rec.labels() == whole.labels()
    assert rec.places["L0"].rows == (0, 160) and len(rec.places["L0"].segments) == 2
    for head, other in zip(rec, whole, strict=True):
        assert head.exact and head.recorded == range(160)
        np.testing.assert_array_equal(head.dense(), other.dense())
        np.testing.assert_array_equal(head.entropy(), other.entropy())
        np.testing.assert_array_equal(head.top(8).keys, other.top(8).keys)
        np.testing.assert_allclose(head.received(), other.received(), atol=1e-6)
        np.testing.assert_allclose(head.pooled(16), other.pooled(16), atol=1e-7)
        np.testing.assert_allclose(head.stored["offsets"].values, other.stored["offsets"].values,
                                   atol=1e-6)  # fmt: skip
    for name in ("sink", "entropy", "previous", "max_score", "sharp", "duplicate", "delimiter"):
        np.testing.assert_allclose(rec.grid(name), whole.grid(name), rtol=1e-6)


def test_one_rank_alone_has_its_rows(tmp_path):
    _, made = ranks(tmp_path)
    rec = regard.open(tmp_path / "rank-0001.regard")
    head = rec["L0H2"]
    assert head.recorded == range(100, 160) and not head.exact  # the first keys are rank 0's
    np.testing.assert_allclose(head.received(), made.truth.weights()[2, 100:].sum(0), atol=1e-6)


def test_arrays_of_masks_are_found_in_their_rank(tmp_path):
    import torch

    from regard.mask import Table

    seen = torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) > 0.4
    _, made = write_recording(
        tmp_path / "rank-0000.regard", chunks=[Chunk((0, 40), (0, 40), Table(seen))]
    )
    rec = regard.open(tmp_path)
    np.testing.assert_allclose(rec["L0H0"].dense(), made.truth.weights()[0], atol=1e-6)


def test_ranks_that_disagree_are_refused(tmp_path):
    for rank, bin in enumerate((1, 2)):
        write_recording(tmp_path / f"rank-{rank:04}.regard", chunks=SMALL, row_bin=bin)
    with pytest.raises(FileError, match="L0: the ranks do not agree about row_bin"):
        regard.open(tmp_path)


def test_a_note_under_another_name_is_refused():
    store, made = write_recording(chunks=SMALL)
    store.note({"place/0/L1": made.place.to_json()})
    with pytest.raises(FileError, match="the note of 'L1' is about 'L0'"):
        Recording(store)
    assert Place.from_json(made.place.to_json()) == made.place


# ── against the engine itself ────────────────────────────────────────────────────────────────


def test_it_says_what_attention_said():
    import torch

    q, k = torch.randn(4, 120, 16), torch.randn(2, 120, 16)
    a = regard.attend(q, k, k, mask=regard.Causal(), scale=0.25)
    store, _ = write_recording(
        chunks=[Chunk((0, 120), (0, 120), Causal())], query=q, key=k, statistics=False
    )
    for head in Recording(store):
        n = head.head
        np.testing.assert_allclose(head.dense(), a.dense()[n], atol=1e-6)
        np.testing.assert_allclose(head.entropy(normalized=True), a.entropy(True)[n], atol=1e-6)
        np.testing.assert_array_equal(head.top(4).keys, a.top(4).keys[n])
        np.testing.assert_allclose(head.pooled(), a.pooled()[n], atol=1e-6)
        np.testing.assert_allclose(head.distance(), a.distance()[n], rtol=1e-5)
        np.testing.assert_allclose(head.max_logit(), a.max_logit()[n], rtol=1e-5)
        np.testing.assert_allclose(
            head.received(9, "visible"), a.received(9, "visible")[n], atol=1e-6
        )
