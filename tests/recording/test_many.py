"""Several tensors in one frame read as if each had a frame of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recording.conftest import WORDS
from regard.errors import FileError, InputError
from regard.recording import Memory, Reader, Writer, check
from regard.recording.format.write import Series

SERIES = [
    Series(["flags", "none"], [(3,), (0, 2)], np.array([True, False, True])),
    Series(["a/lse", "b/lse"], [(2, 2), (2, 1)], np.arange(6, dtype=np.float32)),
    Series(["q"], [WORDS.shape], WORDS, "BF16"),
    Series(["totals"], [(2, 2)], np.arange(4.0).reshape(2, 2)),
]


def filled(path: Path) -> Path:
    with Writer(path) as writer:
        writer.add("before", np.ones(3))
        writer.add_many(SERIES, {"names": "x"})
        writer.add("behind", np.ones(3))
    return path


def test_they_read_back_in_a_file_and_in_memory(tmp_path):
    path, memory = filled(tmp_path / "a.regard"), Memory()
    memory.add("before", np.ones(3))
    memory.add_many(SERIES, {"names": "x"})
    memory.add("behind", np.ones(3))
    report = check(path)
    assert report.is_whole and (report.frames, report.tensors) == (4, 8)
    with Reader(path) as reader:
        assert list(reader) == list(memory)
        for name, entry in reader.entries.items():
            other = memory.entries[name]
            assert (entry.dtype, entry.shape, entry.nbytes, dict(entry.metadata)) == (
                other.dtype, other.shape, other.nbytes, dict(other.metadata),
            )  # fmt: skip
            assert reader.words(name).tobytes() == memory.words(name).tobytes()
            assert reader.words(name).flags.aligned
        assert reader.array("b/lse").tolist() == [[4], [5]]
        assert reader.entries["totals"].metadata == {"names": "x"}


def test_a_name_counts_once(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("q", np.ones(3))
        for names in (["x", "q"], ["x", "x"], ["x", ""]):
            with pytest.raises(InputError, match=r"already|cannot name"):
                writer.add_many([Series(names, [(1,), (2,)], np.ones(3))])
        writer.add_many([Series(["x", "y"], [(1,), (2,)], np.ones(3))])
        with pytest.raises(InputError, match="'y' is in the recording already"):
            writer.add("y", np.ones(3))
    assert list(Reader(tmp_path / "a.regard")) == ["q", "x", "y"]


def test_shapes_that_do_not_fit_are_refused(tmp_path):
    with Writer(tmp_path / "a.regard") as writer, pytest.raises(InputError, match="another size"):
        writer.add_many([Series(["x", "y"], [(1,), (3,)], np.ones(3))])


@pytest.mark.parametrize("left", [0, 40, 200, -1])
def test_a_torn_frame_is_lost_whole_and_no_other(tmp_path, left):
    path = filled(tmp_path / "a.regard")
    with Reader(path) as reader:
        frame = reader.entries["q"].frame
    end = frame.end - 1 if left < 0 else frame.offset + left
    path.write_bytes(path.read_bytes()[:end])
    with Reader(path) as reader:
        assert list(reader) == ["before"] and len(reader.damage) == (left != 0)


def test_a_flipped_byte_is_told_of_every_tensor_of_its_frame(tmp_path):
    path = filled(tmp_path / "a.regard")
    raw = bytearray(path.read_bytes())
    with Reader(path) as reader:
        raw[reader.entries["q"].frame.data + 1] ^= 1
    path.write_bytes(raw)
    with Reader(path) as reader:
        assert reader.array("behind").tolist() == [1, 1, 1]
        for name in ("q", "totals"):
            with pytest.raises(FileError, match="wrong checksum"):
                reader.array(name)
