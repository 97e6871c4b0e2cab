"""Notes added to a finished recording."""

from __future__ import annotations

import pytest

from recording.conftest import ARRAYS, contents, record
from regard.errors import FileError, InputError
from regard.recording import Folder, Reader, Writer, check
from regard.recording.format.write import annotate


def test_nothing_that_was_there_changes(small):
    before = small.read_bytes()
    with Reader(small) as reader:
        held, said = contents(reader), dict(reader.metadata)
    annotate(small, {"knocked/0": "{}", "model": "tiny 3"})
    assert small.read_bytes()[: len(before)] == before
    with Reader(small) as reader:
        assert contents(reader) == held and reader.is_closed and not reader.damage
        assert reader.metadata == said | {"knocked/0": "{}", "model": "tiny 3"}
    assert check(small).is_whole and check(small).is_closed


def test_again_and_again(small):
    for n in range(5):
        annotate(small, {"n": str(n)})
    with Reader(small) as reader:
        assert reader.metadata["n"] == "4" and len(reader.entries) == len(ARRAYS) + 1
    assert check(small).is_whole


def test_every_cut_leaves_a_file_that_can_be_read(small):
    before = small.read_bytes()
    annotate(small, {"n": "1"})
    after = small.read_bytes()
    for size in range(len(before), len(after), 7):
        small.write_bytes(after[:size])
        with Reader(small) as reader:
            assert len(reader.entries) == len(ARRAYS) + 1
            assert reader.metadata.get("n", "1") == "1"


def test_a_file_without_an_index_takes_notes(tmp_path):
    path = tmp_path / "stopped.regard"
    writer = Writer(path)
    writer.add("lse", ARRAYS["L0/lse"])
    raw = path.read_bytes()
    writer.close()
    path.write_bytes(raw)  # as if the writer had been killed
    annotate(path, {"n": "1"})
    with Reader(path) as reader:
        assert reader.is_closed and reader.metadata == {"n": "1"} and list(reader) == ["lse"]


def test_a_damaged_file_is_left_alone(small):
    raw = small.read_bytes()[:-100]
    small.write_bytes(raw)
    with pytest.raises(FileError, match=r"damaged.*regard verify --repair"):
        annotate(small, {"n": "1"})
    assert small.read_bytes() == raw


def test_one_that_is_being_written_is_refused(tmp_path):
    with Writer(tmp_path / "live.regard") as writer:
        writer.note({"model": "tiny"})
        with pytest.raises(FileError, match="being written by another process"):
            annotate(tmp_path / "live.regard", {"n": "1"})


def test_a_folder_takes_them_into_its_lowest_rank(tmp_path):
    for rank in (3, 1):
        record(tmp_path / f"rank-{rank:04}.regard")
    annotate(tmp_path, {"n": "1"})
    with Folder(tmp_path) as folder:
        assert folder.readers[1].metadata["n"] == "1" and "n" not in folder.readers[3].metadata


def test_notes_that_are_no_text(small):
    with pytest.raises(InputError, match="lone surrogates"):
        annotate(small, {"n": "\ud800"})
