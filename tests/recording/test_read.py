"""Reading: listed without data, mapped without copies, alive while it grows."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

from recording.conftest import ARRAYS, contents
from regard.errors import FileError, InputError
from regard.recording import Reader, Writer
from regard.recording.format import frames as source
from regard.recording.format import layout


def test_everything_is_listed_without_reading_data(small, monkeypatch):
    asked = []
    real = source.Source.read

    def read(self, offset, length):
        asked.append((offset, length))
        return real(self, offset, length)

    monkeypatch.setattr(source.Source, "read", read)
    reader = Reader(small)
    assert len(asked) == 4  # file header, tail, index header, index
    assert {name: entry.shape for name, entry in reader.entries.items()} == {
        **{name: array.shape for name, array in ARRAYS.items()},
        "q": (4,),
    }
    entry = reader.entries["L0/lse"]
    assert (entry.dtype, entry.nbytes, dict(entry.metadata)) == ("F32", 24, {"layer": "0"})
    assert "q" in reader and "k" not in reader and len(reader) == 6


def test_opening_costs_the_same_however_large_the_data(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("big", np.zeros(4 << 20, np.uint8))
    tracemalloc.start()
    reader = Reader(tmp_path / "a.regard")
    array = reader.array("big")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert array.size == 4 << 20 and peak < 1 << 20


def test_arrays_are_views_that_cannot_be_written(small):
    reader = Reader(small)
    array = reader.array("L0/lse")
    assert not array.flags.writeable and not array.flags.owndata
    assert not reader.array("q").flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    assert array.ctypes.data % 64 == 0


def test_bf16_is_decoded(small):
    values = Reader(small).array("q")
    assert values.dtype == np.float32
    assert values[:2].tolist() == [1, -2] and np.isnan(values[2])
    assert values[3] == np.float32(9.183549615799121e-41)


def test_arrays_outlive_the_reader(small):
    with Reader(small) as reader:
        array = reader.array("L0/keys")
    assert array.tolist() == [[3, -1], [0, 2]]
    with pytest.raises(InputError, match="this reader is closed"):
        reader.array("L0/keys")


def test_a_name_that_is_not_there(small):
    with pytest.raises(InputError, match="holds no 'nope'; it holds 'L0/lse'"):
        Reader(small).array("nope")


def test_an_entry_of_another_file_is_refused(small, tmp_path):
    with Writer(tmp_path / "b.regard") as writer:
        writer.add("q", np.zeros(3))
    with pytest.raises(InputError, match="holds no 'q'"):
        Reader(tmp_path / "b.regard").array(Reader(small).entries["q"])


def test_a_growing_file_is_followed(tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        reader = Reader(path)
        assert len(reader) == 0 and reader.is_live and not reader.is_closed
        for n in range(5):
            writer.add(f"t{n}", np.full(1000, n))
            (entry,) = reader.refresh()
            assert entry.name == f"t{n}" and (reader.array(entry) == n).all()
        first = reader.array("t0")
        writer.note({"done": "yes"})
        assert reader.refresh() == [] and reader.metadata == {"done": "yes"}
    assert reader.refresh() == [] and reader.damage == ()
    assert reader.is_closed and not reader.is_live
    assert (first == 0).all()


def test_a_frame_half_written_appears_once_it_is_whole(small, tmp_path):
    raw, part = small.read_bytes(), tmp_path / "part.regard"
    part.write_bytes(raw[:300])
    reader = Reader(part)
    known = 0
    for end in range(300, len(raw) + 1, 37):
        part.write_bytes(raw[:end])
        reader.refresh()
        assert len(reader) >= known
        known = len(reader)
    part.write_bytes(raw)
    reader.refresh()
    assert reader.damage == () and contents(reader) == contents(Reader(small))


def test_a_file_that_shrank_is_an_error_and_no_crash(small):
    reader = Reader(small)
    os.truncate(small, 200)
    for ask in (lambda: reader.array("L0/lse"), reader.refresh):
        with pytest.raises(FileError, match="has shrunk"):
            ask()


def test_a_torn_tail_is_cut_and_told(small):
    end = Reader(small).entries["q"].frame.offset
    os.truncate(small, end + 100)
    reader = Reader(small)
    assert list(reader) == list(ARRAYS)
    (damage,) = reader.damage
    assert (damage.offset, damage.length) == (end, 100)
    assert str(damage) == (f"{small}: a frame that was not finished at byte {end} (100 bytes)")


def test_a_tail_of_zeros_is_cut(small):
    """What some file systems leave after a power cut: the length is there, the data is not."""
    raw, frame = small.read_bytes(), Reader(small).entries["q"].frame
    small.write_bytes(raw[: frame.data] + bytes(frame.end - frame.data))
    reader = Reader(small)
    assert "q" not in reader and [one.offset for one in reader.damage] == [frame.offset]


def test_damage_in_the_middle_costs_only_the_frame_it_hits(small):
    raw, frame = bytearray(small.read_bytes()), Reader(small).entries["L0/keys"].frame
    raw[frame.offset + 5] ^= 1
    small.write_bytes(raw[:-64])  # no index to help
    reader = Reader(small)
    assert list(reader) == [name for name in (*ARRAYS, "q") if name != "L0/keys"]
    assert reader.damage[0].offset == frame.offset
    assert reader.damage[0].length == frame.end - frame.offset


def test_a_recording_inside_a_recording_is_data(small, tmp_path):
    path = tmp_path / "outer.regard"
    with Writer(path) as writer:
        writer.add("inner", np.frombuffer(small.read_bytes(), np.uint8))
        writer.add("after", np.ones(1))
    raw = bytearray(path.read_bytes())
    raw[64] ^= 1  # the header of the frame around it
    path.write_bytes(raw[:-64])
    reader = Reader(path)
    assert list(reader) == ["after"] and reader.damage[0].offset == 64


def test_a_newer_version_names_both(tmp_path):
    path = tmp_path / "a.regard"
    path.write_bytes(layout.file_header(version=7))
    with pytest.raises(FileError, match=r"version 7; this regard reads up to version 1: upgrade"):
        Reader(path)


@pytest.mark.parametrize("raw", [b"", b"\x89", b"PK\x03\x04" + bytes(100), bytes(64)])
def test_what_is_not_ours_is_refused(tmp_path, raw):
    (tmp_path / "a.regard").write_bytes(raw)
    with pytest.raises(FileError, match=r"not a regard recording|header is damaged") as caught:
        Reader(tmp_path / "a.regard")
    assert str(caught.value).startswith(str(tmp_path)) and caught.value.exit_code == 3


def test_what_cannot_be_opened_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("none", "no such file"), ("pipe", "not a file"), (".", "not a file")):
        with pytest.raises(FileError, match=message):
            Reader(tmp_path / name)
    with pytest.raises(FileError, match="cannot be opened"):
        Reader("a\0b")
