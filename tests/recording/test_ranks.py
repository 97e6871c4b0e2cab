"""A recording that many ranks write, each its own rows, is the recording of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.errors import FileError, InputError
from regard.mask import Causal
from regard.recording import Folder, Recording, Writer
from support.recordings import Chunk, write_rank, write_recording

_TOKENS = 80


def chunks_of(cuts: Sequence[int]) -> list[Chunk]:
    """Rows from cut to cut, each over all keys before its end."""
    ends = [*sorted({cut for cut in cuts if 0 < cut < _TOKENS}), _TOKENS]
    starts = [0, *ends[:-1]]
    return [Chunk((a, b), (0, b), Causal()) for a, b in zip(starts, ends, strict=True)]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, _TOKENS - 1), max_size=4), st.randoms())
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
        assert rec.places["L0"].rows == (0, _TOKENS) and rec.tokens == whole.tokens
        for head, other in zip(rec, whole, strict=True):
            assert head.exact and head.recorded == range(_TOKENS)
            np.testing.assert_array_equal(head.dense(), other.dense())
            np.testing.assert_allclose(head.received(), other.received(), atol=1e-5)
            np.testing.assert_allclose(head.pooled(16), other.pooled(16), atol=1e-6)
        for name in ("entropy", "peak", "max_score", "first", "sharp", "previous", "sink"):
            np.testing.assert_allclose(rec.grid(name), whole.grid(name), rtol=1e-5, err_msg=name)


def test_ranks_that_come_one_after_another_are_followed(tmp_path: Path) -> None:
    chunks = chunks_of([30, 55])
    write_rank(tmp_path, 0, chunks)
    with regard.open(tmp_path) as rec:
        assert rec["L0H0"].recorded == range(30) and not rec.is_live
        assert not rec.refresh()
        for rank, stop in ((1, 55), (2, 80)):
            writer = write_rank(tmp_path, rank, chunks, close=False)
            before = rec["L0H0"]
            assert rec.refresh() and rec.is_live
            assert rec["L0H0"].recorded == range(stop)
            assert before.recorded != range(stop)  # what was handed out stays as it is
            writer.close()
        rec.refresh()
        assert not rec.is_live and rec["L0H0"].exact


def test_a_rank_in_the_middle_is_waited_for(tmp_path: Path) -> None:
    """Rows behind a gap are not told as if they followed."""
    chunks = chunks_of([30, 55])
    for rank in (0, 2):
        write_rank(tmp_path, rank, chunks)
    with regard.open(tmp_path) as rec:
        assert rec["L0H1"].recorded == range(30)
        write_rank(tmp_path, 1, chunks)
        assert rec.refresh()
        assert rec["L0H1"].recorded == range(80) and rec["L0H1"].exact


def test_words_and_arrays_are_the_ranks_own(tmp_path: Path) -> None:
    words = np.array([0x3F80, 0xC000], np.uint16)
    for rank in range(2):
        with Writer(tmp_path / f"rank-{rank:04}.regard") as writer:
            writer.add("q", words + rank, dtype="BF16")
    with Folder(tmp_path) as folder:
        assert folder.words("rank-0001/q").tolist() == (words + 1).tolist()
        assert folder.array("rank-0000/q").tolist() == [1.0, -2.0]
        entry = folder.entries["rank-0001/q"]
        assert folder.words(entry).tolist() == (words + 1).tolist() and entry.dtype == "BF16"


def test_what_the_lowest_rank_does_not_say_the_next_one_does(tmp_path: Path) -> None:
    for rank, facts in ((5, {"a": "5", "c": "5"}), (1, {"a": "1"}), (3, {"a": "3", "b": "3"})):
        with Writer(tmp_path / f"rank-{rank:04}.regard") as writer:
            writer.note(facts)
    with Folder(tmp_path) as folder:
        assert folder.metadata == {"a": "1", "b": "3", "c": "5"}
        with Writer(tmp_path / "rank-0000.regard") as writer:
            writer.note({"c": "0"})
        folder.refresh()
        assert folder.metadata == {"a": "1", "b": "3", "c": "0"}


@pytest.mark.parametrize("name", ["rank-1.regard", "rank-000000001.regard", "rank-0001.regard"])
def test_ranks_are_numbers_however_they_are_spelt(tmp_path: Path, name: str) -> None:
    with Writer(tmp_path / name) as writer:
        writer.add("x", np.zeros(1))
    with Folder(tmp_path) as folder:
        assert list(folder) == ["rank-0001/x"]


@pytest.mark.parametrize(
    "name",
    ["rank-.regard", "rank-1.regard.part", "Rank-1.regard", "rank--1.regard", "rank-x.regard"],
)
def test_other_files_are_no_ranks(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FileError, match="a folder without"):
        Folder(tmp_path)


def test_a_rank_that_shrank_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        with Writer(tmp_path / f"rank-{rank:04}.regard") as writer:
            writer.add("x", np.arange(50))
    with Folder(tmp_path) as folder:
        (tmp_path / "rank-0001.regard").write_bytes(b"")
        with pytest.raises(FileError, match=r"rank-0001\.regard: has shrunk"):
            folder.refresh()


def test_a_folder_that_was_closed_says_so(tmp_path: Path) -> None:
    with Writer(tmp_path / "rank-0000.regard") as writer:
        writer.add("x", np.arange(50))
    folder = Folder(tmp_path)
    folder.close()
    with pytest.raises(InputError, match="this reader is closed"):
        folder.refresh()
    with pytest.raises(InputError, match="this reader is closed"):
        folder.array("rank-0000/x")
