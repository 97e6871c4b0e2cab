"""Many ranks, one recording."""

from __future__ import annotations

import os

import numpy as np
import pytest

from recording.conftest import record
from regard.errors import FileError, InputError
from regard.recording import Folder, Reader, Writer, open_recording


@pytest.fixture
def ranks(tmp_path):
    """Three ranks, written out of order, and a file that is none."""
    for rank in (2, 0, 10):
        with Writer(tmp_path / f"rank-{rank:04}.regard") as writer:
            writer.note({"model": "tiny", "host": f"h{rank}"})
            writer.add("lse", np.full(3, rank), {"layer": "4"})
    (tmp_path / "notes.txt").write_text("not one of them")
    return tmp_path


def test_ranks_come_in_order(ranks):
    with Folder(ranks) as folder:
        assert list(folder) == ["rank-0000/lse", "rank-0002/lse", "rank-0010/lse"]
        assert [entry.rank for entry in folder.entries.values()] == [0, 2, 10]
        assert len(folder) == 3 and "rank-0002/lse" in folder and "lse" not in folder
        assert folder.damage == () and not folder.is_live


def test_an_entry_knows_its_rank_and_gives_its_array(ranks):
    folder = Folder(ranks)
    entry = folder.entries["rank-0010/lse"]
    assert entry.metadata == {"layer": "4", "rank": "10"} and entry.inner == "lse"
    assert folder.array(entry).tolist() == folder.array("rank-0010/lse").tolist() == [10] * 3
    with pytest.raises(InputError, match="holds no 'lse'"):
        folder.array("lse")


def test_the_lowest_rank_speaks_for_all(ranks):
    assert Folder(ranks).metadata == {"model": "tiny", "host": "h0"}


def test_damage_names_the_file(ranks):
    path = ranks / "rank-0002.regard"
    os.truncate(path, path.stat().st_size - 1)
    folder = Folder(ranks)
    assert len(folder) == 3
    assert [one.file for one in folder.damage] == [str(path)]


def test_ranks_that_come_later_are_seen(ranks):
    folder = Folder(ranks)
    with Writer(ranks / "rank-0001.regard") as writer:
        writer.add("lse", np.ones(1))
        assert [entry.name for entry in folder.refresh()] == ["rank-0001/lse"]
        assert folder.is_live and list(folder.readers) == [0, 1, 2, 10]
        writer.add("more", np.ones(1))
        assert [entry.name for entry in folder.refresh()] == ["rank-0001/more"]


def test_a_file_or_a_folder_opens(ranks, tmp_path):
    assert isinstance(open_recording(ranks), Folder)
    assert isinstance(open_recording(record(tmp_path / "a.regard")), Reader)


def test_a_folder_without_ranks_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"a folder without rank-0000\.regard"):
        Folder(tmp_path)
    with pytest.raises(FileError, match="cannot be opened"):
        Folder(tmp_path / "none")


def test_two_files_of_one_rank_are_refused(ranks):
    (ranks / "rank-2.regard").write_bytes((ranks / "rank-0002.regard").read_bytes())
    with pytest.raises(FileError, match="two files of rank 2"):
        Folder(ranks)


def test_one_file_that_is_no_recording_is_named(ranks):
    (ranks / "rank-0003.regard").write_bytes(b"x")
    with pytest.raises(FileError, match=r"rank-0003\.regard: not a regard recording"):
        Folder(ranks)
