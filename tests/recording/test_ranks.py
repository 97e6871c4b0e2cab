"""A recording that many ranks write, each its own rows, is the recording of one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from recording.conftest import put, record
from regard.errors import FileError, InputError
from regard.mask import Causal, Table
from regard.recording import STATISTICS, Folder, Reader, Recording, Writer, open_recording
from regard.recording.layer import add_profiles
from support.recordings import Chunk, write_rank, write_recording

TOKENS = 80


def chunks_of(cuts: Sequence[int]) -> list[Chunk]:
    """Rows from cut to cut, each over all keys before its end."""
    ends = [*sorted({cut for cut in cuts if 0 < cut < TOKENS}), TOKENS]
    return [Chunk((a, b), (0, b), Causal()) for a, b in zip([0, *ends], ends, strict=False)]


# ── as a store of tensors ────────────────────────────────────────────────────────────────────


@pytest.fixture
def ranks(tmp_path):
    """Three ranks, written out of order and spelt in other ways, and files that are none."""
    for rank, name in ((2, "rank-2.regard"), (0, "rank-0000.regard"), (10, "rank-00010.regard")):
        with Writer(tmp_path / name) as writer:
            writer.note({"host": f"h{rank}"} | ({"of": f"{rank}"} if rank else {}))
            writer.add("lse", np.full(3, rank), {"layer": "4"})
            writer.add("q", np.array([0x3F80 + rank], np.uint16), dtype="BF16")
    for name in ("rank-.regard", "rank-1.regard.part", "Rank-1.regard", "rank--1.regard", "x.txt"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def test_tensors_and_notes_are_those_of_all_ranks_in_order(ranks):
    with open_recording(ranks) as folder:
        assert isinstance(folder, Folder)
        names = [f"rank-{rank:04}/{name}" for rank in (0, 2, 10) for name in ("lse", "q")]
        assert list(folder) == names and len(folder) == 6
        assert names[2] in folder and "lse" not in folder and folder.damage == ()
        entry = folder.entries["rank-0010/lse"]
        assert (entry.rank, entry.inner) == (10, "lse")
        assert entry.metadata == {"layer": "4", "rank": "10"} and not folder.is_live
        assert folder.array(entry).tolist() == folder.array(entry.name).tolist() == [10] * 3
        assert folder.words("rank-0002/q").tolist() == [0x3F82]
        assert folder.array("rank-0000/q").tolist() == [1.0]
        assert folder.metadata == {"host": "h0", "of": "2"}  # the lowest that says so
        with pytest.raises(InputError, match="holds no 'lse'"):
            folder.array("lse")
    for ask in (folder.refresh, lambda: folder.array("rank-0000/lse")):
        with pytest.raises(InputError, match="this reader is closed"):
            ask()
    assert isinstance(open_recording(record(ranks / "a.regard")), Reader)


def test_what_comes_later_is_seen(ranks):
    with Folder(ranks) as folder, Writer(ranks / "rank-0001.regard") as writer:
        writer.add("lse", np.ones(1))
        assert [entry.name for entry in folder.refresh()] == ["rank-0001/lse"]
        assert folder.is_live and list(folder.readers) == [0, 1, 2, 10]
        writer.add("more", np.ones(1))
        assert [entry.name for entry in folder.refresh()] == ["rank-0001/more"]


def test_a_rank_that_is_damaged_is_named(ranks):
    path = ranks / "rank-2.regard"
    os.truncate(path, path.stat().st_size - 1)
    with Folder(ranks) as folder:
        assert len(folder) == 6 and [d.file for d in folder.damage] == [str(path)]
        put(path, b"")
        with pytest.raises(FileError, match=r"rank-2\.regard: has shrunk"):
            folder.refresh()
    put(path, b"x")
    with pytest.raises(FileError, match=r"rank-2\.regard: not a regard recording"):
        Folder(ranks)


def test_what_is_no_folder_of_ranks(ranks, tmp_path_factory):
    (ranks / "rank-0002.regard").write_bytes((ranks / "rank-2.regard").read_bytes())
    with pytest.raises(FileError, match="two files of rank 2"):
        Folder(ranks)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileError, match=r"a folder without rank-0000\.regard"):
        Folder(empty)
    with pytest.raises(FileError, match="cannot be opened"):
        Folder(empty / "none")


# ── as a recording ───────────────────────────────────────────────────────────────────────────


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, TOKENS - 1), max_size=4), st.randoms())
def test_however_the_rows_are_shared_out(
    tmp_path_factory: Any, cuts: list[int], random: Any
) -> None:
    """In whatever order the ranks have written."""
    folder, chunks = tmp_path_factory.mktemp("ranks"), chunks_of(cuts)
    order = list(range(len(chunks)))
    random.shuffle(order)
    for rank in order:
        write_rank(folder, rank, chunks)
    store, _ = write_recording(chunks=chunks, pieces=8)
    whole = Recording(store)
    with regard.open(folder) as rec:
        assert isinstance(rec.store, Folder) and rec.labels() == whole.labels()
        assert rec.places["L0"].rows == (0, TOKENS) and rec.tokens == whole.tokens
        assert len(rec.places["L0"].segments) == len(chunks)
        for head, other in zip(rec, whole, strict=True):
            assert head.exact and head.recorded == range(TOKENS)
            np.testing.assert_array_equal(head.dense(), other.dense())
            np.testing.assert_array_equal(head.entropy(), other.entropy())
            np.testing.assert_array_equal(head.top(8).keys, other.top(8).keys)
            np.testing.assert_allclose(head.received(), other.received(), atol=1e-5)
            np.testing.assert_allclose(head.pooled(16), other.pooled(16), atol=1e-6)
            offsets = (h.stored["offsets"].values for h in (head, other))
            np.testing.assert_allclose(*offsets, atol=1e-6)
        for name in STATISTICS:
            np.testing.assert_allclose(rec.grid(name), whole.grid(name), rtol=1e-5, err_msg=name)


def test_rows_behind_a_rank_that_is_missing_are_waited_for(tmp_path):
    chunks = chunks_of([30, 55])
    for rank in (0, 2):
        write_rank(tmp_path, rank, chunks)
    with regard.open(tmp_path) as rec:
        before = rec["L0H1"]
        assert before.recorded == range(30) and not rec.is_live and not rec.refresh()
        writer = write_rank(tmp_path, 1, chunks, close=False)
        assert rec.refresh() and rec.is_live
        assert rec["L0H1"].recorded == range(80) and rec["L0H1"].exact
        assert before.recorded == range(30)  # what was handed out stays as it is
        writer.close()
        rec.refresh()
        assert not rec.is_live


def test_arrays_of_masks_are_those_of_their_rank(tmp_path):
    seen = torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) > 0.4
    chunks = [Chunk((0, 40), (0, 40), Table(seen))]
    _, made = write_recording(tmp_path / "rank-0000.regard", chunks=chunks)
    with regard.open(tmp_path) as rec:
        np.testing.assert_allclose(rec["L0H0"].dense(), made.truth.weights()[0], atol=1e-6)


@pytest.mark.parametrize("lie", [{"row_bin": 2}, {"exact": False, "why_not": "no room"}])
def test_ranks_that_disagree(tmp_path, lie):
    for rank, change in enumerate(({}, lie)):
        with write_rank(tmp_path, rank, chunks_of([40]), close=False) as writer:
            with Reader(writer.path) as reader:
                place = json.loads(reader.metadata["place/0/L0"]) | change
            writer.note({"place/0/L0": json.dumps(place)})
    if "row_bin" in lie:
        with pytest.raises(FileError, match="L0: the ranks do not agree about row_bin"):
            regard.open(tmp_path)
    else:
        with regard.open(tmp_path) as rec:
            assert rec["L0H0"].why_not == "no room"


# ── profiles of distances ────────────────────────────────────────────────────────────────────


def profile(edges: list[int], masses: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Two heads, the second with twice as much."""
    return np.float32([masses, [2 * mass for mass in masses]]), np.array(edges, np.int32)


@pytest.mark.parametrize(
    ("first", "second", "edges", "masses"),
    [
        (([0, 1, 2, 4], [1, 2, 3]), ([0, 1, 2, 4], [4, 5, 6]), [0, 1, 2, 4], [5, 7, 9]),
        (([-1, 0, 1, 2], [1, 2, 3]), ([0, 1, 2, 4, 8], [1, 1, 1, 1]), [-1, 0, 1, 2, 4, 8],
         [1, 3, 4, 1, 1]),
        (([0, 2, 4], [1, 2]), ([0, 1, 3, 4], [1, 2, 4]), [0, 4], [10]),  # bins that cross
    ],
)  # fmt: skip
def test_profiles_add_up_over_the_edges_that_they_share(first, second, edges, masses):
    total = add_profiles("L0", [profile(*first), profile(*second)])
    assert total.edges.tolist() == edges
    assert total.masses.tolist() == [masses, [2 * mass for mass in masses]]
