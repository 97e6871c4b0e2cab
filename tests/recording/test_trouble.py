"""Disks, locks and systems that refuse: one sentence each, and nothing half done."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recording.conftest import contents, record
from regard.errors import DTypeError, FileError, InputError
from regard.recording import Memory, Reader, Writer, check, repair
from regard.recording.format import frames as source
from regard.recording.format import log as append
from regard.recording.format.layout import MAX_HEAD
from regard.recording.format.write import annotate


def refusing(code: int) -> Any:
    """A system call that fails."""

    def call(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return call


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def test_a_disk_that_cannot_be_read(small: Path) -> None:
    class Broken:
        def seek(self, _: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        def close(self) -> None: ...

    opened = source.Source(small)
    opened.file.close()
    opened.file = Broken()  # type: ignore[assignment]
    with pytest.raises(FileError, match=r"small\.regard: cannot be read \(Input/output error\)"):
        opened.read(0, 10)


def test_a_file_that_cannot_be_mapped(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader(small) as reader:
        monkeypatch.setattr(mmap, "mmap", refusing(errno.ENODEV))
        with pytest.raises(FileError, match="cannot be mapped"):
            reader.array("L0/lse")
        assert "L0/lse" in reader  # it is listed still


def test_a_reader_that_fails_lets_the_file_go(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    real = source.Source.close
    monkeypatch.setattr(source.Source, "close", lambda self: (closed.append(1), real(self)))
    monkeypatch.setattr(Reader, "_take_in", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Reader(small)
    assert closed == [1]


@pytest.mark.parametrize("name", ["folder", "pipe", "nothing\n.regard", "zero\0.regard"])
def test_what_is_no_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    if name == "pipe":
        os.mkfifo(path)
    with pytest.raises(FileError) as error:
        Reader(path)
    assert "\n" not in str(error.value) and "\0" not in str(error.value)
    assert any(word in str(error.value) for word in ("not a file", "no such file", "cannot be"))


# ── locks ────────────────────────────────────────────────────────────────────────────────────


def test_a_file_system_without_locks_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source._fcntl, "flock", refusing(errno.ENOLCK))
    path = record(tmp_path / "a.regard")
    with Reader(path) as reader:
        assert not reader.is_live and check(path).is_whole
    annotate(path, {"n": "1"})


def test_a_system_without_locks_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_fcntl", None)
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("x", np.zeros(3))
        assert not Reader(tmp_path / "a.regard").is_live  # nobody can tell
    assert check(tmp_path / "a.regard").is_whole


# ── writing ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_disk_that_is_full_at_the_first_byte_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    path = tmp_path / "a.regard"
    if overwrite:
        record(path)
        with Reader(path) as reader:
            before = contents(reader)
    monkeypatch.setattr(append, "_write_some", refusing(errno.ENOSPC))
    with pytest.raises(FileError, match="No space left"):
        Writer(path, overwrite=overwrite)
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == (["a.regard"] if overwrite else [])
    if overwrite:
        with Reader(path) as reader:
            assert contents(reader) == before  # the old one is as it was


def test_a_name_that_cannot_be_taken_leaves_both(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = small.read_bytes()
    monkeypatch.setattr(Path, "replace", refusing(errno.EACCES))
    message = r"cannot be replaced \(Permission denied\); the recording is in .*\.partial"
    with pytest.raises(FileError, match=message), Writer(small, overwrite=True) as writer:
        writer.add("new", np.ones(2))
    assert small.read_bytes() == before
    assert list(Reader(Path(f"{small}.partial"))) == ["new"]


def test_an_error_that_is_not_the_disks_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of a frame takes the frame back."""
    real = append._write_some
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("x", np.arange(9))

        def pressed(descriptor: int, parts: list[memoryview]) -> int:
            real(descriptor, [parts[0][:10]])
            raise KeyboardInterrupt

        monkeypatch.setattr(append, "_write_some", pressed)
        with pytest.raises(KeyboardInterrupt):
            writer.add("y", np.arange(9))
        monkeypatch.undo()
        writer.add("y", np.arange(3))
    with Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["x", "y"] and reader.array("y").size == 3
    assert check(tmp_path / "a.regard").is_whole


def test_a_system_that_writes_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call takes a few bytes only, and there is no writev."""
    real = os.write
    monkeypatch.delattr(os, "writev")
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    path = record(tmp_path / "a.regard")
    monkeypatch.undo()
    assert path.read_bytes() == record(tmp_path / "b.regard").read_bytes()


def test_a_disk_that_promises_nothing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refusing(errno.EIO))
    with pytest.raises(FileError, match=r"cannot be written \(Input/output error\)"):
        annotate(small, {"n": "1"})
    os.truncate(small, small.stat().st_size - 1)
    with pytest.raises(FileError, match="cannot be repaired"):
        repair(small)


def test_an_index_that_would_be_too_large_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening walks the frames instead, and finds all of them."""
    monkeypatch.setattr(append, "MAX_INDEX", 300)
    path = record(tmp_path / "a.regard")
    with Reader(path) as reader, Reader(record(tmp_path / "b.regard")) as other:
        assert not reader.is_closed and contents(reader) == contents(other)
        assert reader.metadata == other.metadata


@pytest.mark.parametrize("store", ["file", "memory"])
def test_facts_that_cannot_be_written(tmp_path: Path, store: str) -> None:
    target: Any = Memory() if store == "memory" else Writer(tmp_path / "a.regard")
    with target:
        with pytest.raises(DTypeError, match="give str"):
            target.add("x", np.zeros(1), {"layer": 3})
        with pytest.raises(InputError, match="cannot name a tensor"):
            target.add("__metadata__", np.zeros(1))
        with pytest.raises(InputError, match="cannot name a tensor"):
            target.add(None, np.zeros(1))
        with pytest.raises(DTypeError, match="as F32"):
            target.add("x", np.zeros(1), dtype="F32")
        target.add("x", np.zeros(1))  # the name is free still


def test_metadata_that_is_a_book(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.regard") as writer:
        with pytest.raises(InputError, match=r"a frame takes .* add a U8 tensor instead"):
            writer.note({"text": "x" * (MAX_HEAD + 1)})
        writer.note({"text": "short"})
    with Reader(tmp_path / "a.regard") as reader:
        assert reader.metadata == {"text": "short"}


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for overwrite in (False, True):
            with Writer(tmp_path / "a.regard", overwrite=overwrite):
                pass
            assert (tmp_path / "a.regard").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
