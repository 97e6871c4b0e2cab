"""Processes that end, disks, locks and systems that refuse: one sentence each, and nothing half
done."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recording.conftest import contents, record, refusing
from recording.spec import read_frames
from regard.errors import FileError
from regard.recording import Reader, Writer, check, repair
from regard.recording.format import frames as source
from regard.recording.format import log, write
from regard.recording.format.write import annotate

KILLED = """
import sys, numpy as np
from regard.recording import Writer
writer = Writer(sys.argv[1], overwrite=True)
for n in range(10**6):
    writer.add(f"t{n}", np.full(200_000, n, np.uint32))
    print(n, flush=True)
"""


def test_a_killed_writer_loses_at_most_the_frame_it_was_writing(small):
    """And the older file stays as it was."""
    before, command = small.read_bytes(), [sys.executable, "-c", KILLED, str(small)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        done = [int(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        done += [int(line) for line in child.stdout if line.endswith("\n")]
    assert small.read_bytes() == before
    with Reader(small.with_name("small.regard.partial")) as reader:
        assert len(reader) >= done[-1] + 1 and not reader.is_live
        assert all((reader.array(f"t{n}") == n).all() for n in range(len(reader)))
        assert all(d.reason == "a frame that was not finished" for d in reader.damage)


LIMITED = """
import resource, sys, numpy as np
from regard.recording import Writer
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
w = Writer(sys.argv[1])
for n in range(100): w.add(f't{n}', np.full(50, n))
"""


def test_a_limit_on_the_file_size_is_met_in_earnest(tmp_path):
    path = tmp_path / "a.regard"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False
    )
    assert "FileError" in done.stderr.splitlines()[-1] and "File too large" in done.stderr
    report = check(path)
    assert report.is_whole and report.tensors == 7


def fill_disk(patch: pytest.MonkeyPatch, room: int) -> None:
    """A disk that takes so many more bytes, even in the middle of a call."""
    real, left = os.writev, [room]

    def some(descriptor: int, parts: Any) -> int:
        taken = b"".join(parts)[: left[0]]
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= len(taken)
        return real(descriptor, [taken])

    patch.setattr(os, "writev", some)


@pytest.mark.parametrize("room", [0, 1, 63, 64, 100, 191])
def test_a_full_disk_is_one_line_and_the_file_stays_whole(tmp_path, monkeypatch, room):
    path = tmp_path / "a.regard"
    says = pytest.raises(FileError, match=r"No space left on device\); all before byte [0-9]+ is")
    with says as caught, Writer(path) as writer:
        writer.add("x", np.ones(3))
        with monkeypatch.context() as patch:
            fill_disk(patch, room)
            with pytest.raises(FileError, match="No space left"):
                writer.add("y", np.ones(9))
        writer.add("y", np.ones(3))  # there is room again
        fill_disk(monkeypatch, room)
        writer.note({"n": "1"})  # or the index at the end
    assert "\n" not in str(caught.value)
    report = check(path)
    assert report.is_whole and report.tensors == 2 and not report.is_closed


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_disk_that_is_full_at_the_first_byte_leaves_nothing(tmp_path, monkeypatch, overwrite):
    path = tmp_path / "a.regard"
    before = record(path).read_bytes() if overwrite else b""
    fill_disk(monkeypatch, 0)
    with pytest.raises(FileError, match="No space left"):
        Writer(path, overwrite=overwrite)
    assert [*tmp_path.iterdir()] == ([path] if overwrite else [])
    assert not overwrite or path.read_bytes() == before


def test_a_name_that_cannot_be_taken_leaves_both(small, monkeypatch):
    before = small.read_bytes()
    monkeypatch.setattr(Path, "replace", refusing(errno.EACCES))
    says = r"cannot be replaced \(Permission denied\); the recording is in .*\.partial"
    with pytest.raises(FileError, match=says), Writer(small, overwrite=True) as writer:
        writer.add("new", np.ones(2))
    assert small.read_bytes() == before and list(Reader(Path(f"{small}.partial"))) == ["new"]


def test_a_system_that_writes_piece_by_piece(tmp_path, monkeypatch):
    """Each call takes a few bytes only, and there is no writev."""
    real = os.write
    with monkeypatch.context() as patch:
        patch.delattr(os, "writev")
        patch.setattr(os, "write", lambda descriptor, raw: real(descriptor, raw[:7]))
        path = record(tmp_path / "a.regard")
    assert path.read_bytes() == record(tmp_path / "b.regard").read_bytes()


def test_a_disk_that_promises_nothing(small, monkeypatch):
    monkeypatch.setattr(os, "fsync", refusing(errno.EIO))
    with pytest.raises(FileError, match=r"cannot be written \(Input/output error\)"):
        annotate(small, {"n": "1"})
    os.truncate(small, small.stat().st_size - 1)
    with pytest.raises(FileError, match="cannot be repaired"):
        repair(small)


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_system_without_locks_is_written_all_the_same(tmp_path, monkeypatch, has_locks):
    if has_locks:  # but the file system has none
        monkeypatch.setattr("fcntl.flock", refusing(errno.ENOLCK))
    else:
        monkeypatch.setattr(source, "_fcntl", None)
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("x", np.zeros(3))
        assert not Reader(tmp_path / "a.regard").is_live  # nobody can tell
    annotate(tmp_path / "a.regard", {"n": "1"})
    assert check(tmp_path / "a.regard").is_whole


def test_a_disk_that_cannot_be_read_or_mapped(small, monkeypatch):
    with pytest.raises(FileError, match=r"/proc/self/mem: cannot be read \(Input/output error\)"):
        Reader("/proc/self/mem")
    with Reader(small) as reader:
        with monkeypatch.context() as patch:
            patch.setattr(mmap, "mmap", refusing(errno.ENODEV))
            with pytest.raises(FileError, match=r"small\.regard: cannot be mapped"):
                reader.array("L0/lse")
        assert reader.array("L0/lse").shape == (2, 3)


# ── the index, and what is durable ───────────────────────────────────────────────────────────


@pytest.fixture
def often(monkeypatch):
    """An index every 1000 bytes, however large it is itself."""
    monkeypatch.setattr(write, "_INDEX_EVERY", 1000)
    monkeypatch.setattr(write, "_INDEX_SHARE", 0)


def test_an_index_comes_now_and_then_and_more_rarely_as_it_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "_INDEX_EVERY", 2000)
    with Writer(tmp_path / "a.regard") as writer:
        for n in range(200):
            writer.add(f"t{n}", np.full(100, n, np.uint8))
    kinds = [one.kind for one in read_frames(writer.path.read_bytes())]
    assert 3 <= kinds.count(b"INDX") <= 10 and kinds[-1] == b"INDX"


def test_an_index_that_would_be_too_large_is_left_out(tmp_path, monkeypatch):
    """Opening walks the frames instead, and finds all of them."""
    monkeypatch.setattr(log, "MAX_INDEX", 300)
    with Reader(record(tmp_path / "a.regard")) as reader:
        monkeypatch.undo()
        with Reader(record(tmp_path / "b.regard")) as other:
            assert not reader.is_closed and contents(reader) == contents(other)
            assert reader.metadata == other.metadata


def test_writing_goes_on_while_the_disk_works(tmp_path, monkeypatch, often):
    may_end, synced = threading.Event(), []

    def fsync(_: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert may_end.wait(120)
        synced.append(threading.current_thread().name)

    monkeypatch.setattr(os, "fsync", fsync)
    writer = Writer(tmp_path / "a.regard")
    writer.add("x", np.zeros(1000, np.uint8))  # an index is due
    writer.add("y", np.zeros(8, np.uint8))
    assert synced == []
    with Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["x", "y"]
    may_end.set()
    writer.close()
    assert synced == ["regard-sync", "MainThread"]


@pytest.mark.parametrize("then", ["close", "add"])
def test_a_disk_that_fails_meanwhile_is_reported_once(tmp_path, monkeypatch, often, then):
    troubles = [OSError(errno.EIO, os.strerror(errno.EIO))]

    def fsync(_: int) -> None:
        if troubles:
            raise troubles.pop()

    monkeypatch.setattr(os, "fsync", fsync)
    writer = Writer(tmp_path / "a.regard")
    writer.add("x", np.zeros(1000, np.uint8))
    with pytest.raises(FileError, match=r"cannot be written \(Input/output error\)"):
        writer.close() if then == "close" else writer.add("y", np.zeros(1000, np.uint8))
    writer.close()
    assert check(tmp_path / "a.regard").damage == ()
    with Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["x"] + ["y"] * (then == "add")
