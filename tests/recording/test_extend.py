"""A finished recording is gone on with; what is there stays."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import FileError, InputError
from regard.recording import Reader, Writer, check
from regard.recording.format.write import extend


@pytest.fixture
def path(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("a", np.arange(3))
        writer.note({"x": "1"})
    return tmp_path / "a.regard"


def test_more_tensors_and_notes(path):
    before = path.read_bytes()
    with extend(path) as writer:
        writer.add("b", np.arange(5))
        writer.note({"x": "2"})
    assert path.read_bytes()[: len(before)] == before and check(path).damage == ()
    with Reader(path) as reader:
        assert list(reader.entries) == ["a", "b"] and reader.metadata["x"] == "2"
        assert reader.array("b").tolist() == [0, 1, 2, 3, 4]


def test_a_file_that_was_not_closed(path, tmp_path):
    with Writer(tmp_path / "b.regard") as writer:
        writer.add("a", np.arange(3))
        whole = (tmp_path / "b.regard").read_bytes()
    (tmp_path / "c.regard").write_bytes(whole)  # without an index
    with extend(tmp_path / "c.regard") as writer:
        writer.add("b", np.arange(4))
    with Reader(tmp_path / "c.regard") as reader:
        assert list(reader.entries) == ["a", "b"]


def test_names_stay_unique(path):
    with extend(path) as writer, pytest.raises(InputError, match="in the recording already"):
        writer.add("a", np.arange(3))


def test_one_writer_at_a_time(path):
    with extend(path), pytest.raises(FileError, match="being written by another"):
        extend(path)
    extend(path).close()


def test_a_torn_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:-70])
    with pytest.raises(FileError, match="regard verify --repair"):
        extend(path)
    with pytest.raises(FileError, match="no such file"):
        extend(path.with_name("none.regard"))
