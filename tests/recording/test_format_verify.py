"""Checking finds every flipped byte; repairing loses nothing that can be read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from recording.conftest import ARRAYS, contents
from regard.errors import FileError
from regard.recording import Reader, Writer, check, repair
from regard.recording.format import log as append


def test_a_whole_file(small):
    report = check(small)
    assert report.is_whole and report.is_closed and not report.is_live
    assert (report.frames, report.tensors, report.size) == (9, 6, small.stat().st_size)


def test_every_flipped_byte_is_found(small):
    raw = small.read_bytes()
    for at in range(len(raw)):
        small.write_bytes(raw[:at] + bytes([raw[at] ^ 0x40]) + raw[at + 1 :])
        if at < 64:
            with pytest.raises(FileError):
                check(small)
        else:
            report = check(small)
            assert not report.is_whole, at
            assert any(d.offset <= at < d.offset + d.length for d in report.damage), at


def test_every_truncation_is_repaired(small):
    raw, whole = small.read_bytes(), contents(Reader(small))
    ends = {entry.frame.end: name for name, entry in Reader(small).entries.items()}
    edges = {edge + n for edge in (64, *ends) for n in (-1, 0, 1)}
    for end in sorted({*range(64, len(raw), 13), *edges} - {63}):
        small.write_bytes(raw[:end])
        expected = [name for stop, name in ends.items() if stop <= end]
        report = repair(small)
        assert report.is_whole and report.is_closed, end
        reader = Reader(small)
        assert reader.damage == () and list(reader) == expected
        assert all(contents(reader)[name] == whole[name] for name in expected)


def test_a_file_without_an_index_is_no_damage(small):
    index = Reader(small)._catalogue.frames[-1].frame
    os.truncate(small, index.offset)
    report = check(small)
    assert report.is_whole and not report.is_closed
    assert repair(small).is_closed and check(small).is_whole


def test_a_whole_file_is_not_changed_by_repair(small):
    raw = small.read_bytes()
    assert repair(small).is_whole
    assert small.read_bytes() == raw


def test_damage_in_the_middle_stays_and_so_does_all_else(small):
    raw, frame = bytearray(small.read_bytes()), Reader(small).entries["L0/lse"].frame
    raw[frame.data] ^= 1
    small.write_bytes(raw)
    report = repair(small)
    assert [(one.offset, one.reason) for one in report.damage] == [
        (frame.offset, "a frame with a wrong checksum")
    ]
    assert small.read_bytes() == raw  # the index is sound, nothing else can be done


def test_damage_in_the_middle_and_at_the_end(small):
    raw, frames = bytearray(small.read_bytes()), Reader(small).entries
    hit = frames["L0/lse"].frame
    raw[hit.data] ^= 1
    small.write_bytes(raw[: frames["q"].frame.end + 70])
    report = repair(small)
    assert [one.offset for one in report.damage] == [hit.offset] and report.is_closed
    reader = Reader(small)
    assert list(reader) == [name for name in (*ARRAYS, "q") if name != "L0/lse"]
    assert [(one.offset, one.length) for one in reader.damage] == [
        (hit.offset, hit.end - hit.offset)
    ]
    assert contents(reader)
    assert repair(small) == report  # once is enough


def test_a_header_that_only_the_index_still_knows_is_kept(small):
    raw, frame = bytearray(small.read_bytes()), Reader(small).entries["q"].frame
    raw[frame.offset + 20] ^= 1
    small.write_bytes(raw)
    assert not repair(small).is_whole
    reader = Reader(small)
    assert reader.array("q").size == 4 and reader.damage == ()


def test_padding_that_is_not_zero_costs_no_frame(small):
    raw, frame = bytearray(small.read_bytes()), Reader(small).entries["q"].frame
    raw[frame.end - 1] = 1
    small.write_bytes(raw[: frame.end])
    report = repair(small)
    assert [one.reason for one in report.damage] == ["stray bytes behind a frame"]
    assert Reader(small).array("q").size == 4


def test_a_file_that_is_being_written_is_checked_but_not_repaired(tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        writer.add("x", np.ones(3))
        with path.open("ab") as file:
            file.write(b"RGDF")  # the frame that is on its way
        report = check(path)
        assert report.is_live and report.is_whole and report.tensors == 1
        with pytest.raises(FileError, match="being written"):
            repair(path)


def test_what_is_no_recording_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"important")
    for ask in (check, repair):
        with pytest.raises(FileError, match="not a regard recording"):
            ask(path)
    assert path.read_bytes() == b"important"


def liar(path: Path, monkeypatch: pytest.MonkeyPatch, indices: int) -> Path:
    """Sound checksums all over, but every index leaves the same tensor out."""
    real = append.index_payload

    def without(offset, headers, heads):
        return real(offset, [headers[0], *headers[2:]], [heads[0], *heads[2:]])

    with monkeypatch.context() as patch, Writer(path) as writer:
        patch.setattr(append, "index_payload", without)
        for n in range(indices):
            writer.add(f"x{n}", np.full(3, n))
            writer.add(f"y{n}", np.full(3, n))
            writer._log.append_index()
    return path


@pytest.mark.parametrize("indices", [1, 3])
def test_an_index_that_lies_is_found_and_made_anew(tmp_path, monkeypatch, indices):
    path = liar(tmp_path / "a.regard", monkeypatch, indices)
    reasons = {one.reason for one in check(path).damage}
    assert reasons == {"an index that disagrees with the file"}
    assert "y0" not in Reader(path)
    assert repair(path).is_whole
    report = check(path)
    assert report.is_whole and report.is_closed and report.tensors == 2 * indices
    with Reader(path) as reader:
        assert not reader.damage
        for name, entry in reader.entries.items():
            np.testing.assert_array_equal(reader.array(entry), np.full(3, int(name[1:])))
    raw = path.read_bytes()
    assert repair(path).is_whole and path.read_bytes() == raw


def test_a_damaged_index_in_the_middle_is_made_void(tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        writer.add("x", np.ones(3))
        index = writer._log.end
        writer._log.append_index()
        writer.add("y", np.ones(3))
    raw = path.read_bytes()
    for at in (index + 64 + 10, index + 64 + 200):  # in its head, in its list
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        assert not check(path).is_whole
        assert repair(path).is_whole
        assert list(Reader(path)) == ["x", "y"]
