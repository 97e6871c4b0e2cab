"""Processes, disks and GPUs that give out while a model is recorded: what was written is whole, and
an older file stays until the new one is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.errors import DTypeError, FileError
from regard.recorder import background_writer, session
from regard.recorder.background_writer import BackgroundWriter
from regard.recording import Reader, Writer, check
from regard.recording.format import log

FRAME, ROOM = 2_000_000, 8_000_000  # bytes: large enough for threads, few enough to be quick

BEHIND = f"""
import sys, numpy as np
from regard.recorder.background_writer import BackgroundWriter
from regard.recording import Writer
store = BackgroundWriter(Writer(sys.argv[1]), room={ROOM})
for n in range(10**6):
    store.add(f"t{{n}}", np.full({FRAME}, n % 251, np.uint8))
    print(n, flush=True)
"""


def test_a_killed_process_loses_what_waits_and_the_frame_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.regard"
    command = [sys.executable, "-c", BEHIND, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        done = [int(child.stdout.readline()) for _ in range(9)]
        child.send_signal(signal.SIGKILL)
        done += [int(line) for line in child.stdout if line.endswith("\n")]
    with Reader(path) as reader:
        # what was added and is missing fits the room
        assert len(reader) >= done[-1] + 1 - ROOM // FRAME and not reader.is_live
        assert list(reader) == [f"t{n}" for n in range(len(reader))]
        for n, name in enumerate(reader):
            assert (reader.array(name) == n % 251).all()
        assert all(one.reason == "a frame that was not finished" for one in reader.damage)


# ── a model on a GPU is recorded by threads ──────────────────────────────────────────────────


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small Llama that is recorded as one on a GPU is."""
    made = tiny("llama")
    monkeypatch.setattr(background_writer, "_LARGE", 1000)
    monkeypatch.setattr(session, "_is_on_gpu", lambda model: model is made)
    return made


def writers_of(model: Any, path: Path) -> list[str]:
    """The threads that write the file of a recording."""
    names = set()
    real = log._write_some

    def watched(descriptor: int, parts: list[memoryview]) -> int:
        names.add(threading.current_thread().name)
        return real(descriptor, parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "_write_some", watched)
        with torch.no_grad(), regard.record(model, path):
            model(tokens(300))
    return sorted(names)


def test_threads_write_the_file_that_a_caller_would(tmp_path: Path, model: Any) -> None:
    assert "regard-writer" in writers_of(model, tmp_path / "a.regard")
    assert writers_of(tiny("llama"), tmp_path / "b.regard") == ["MainThread"]
    with Reader(tmp_path / "a.regard") as a, Reader(tmp_path / "b.regard") as b:
        assert list(a) == list(b)
        assert all(np.array_equal(a.words(name), b.words(name)) for name in a)


def test_a_full_disk_is_one_sentence_whichever_thread_meets_it(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, left = tmp_path / "a.regard", log._write_some, [13]  # the header and 12 frames

    def some(descriptor: int, parts: list[memoryview]) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, parts)

    message = r"^[^\n]*a\.regard: cannot be written \(No space left on device\); all before"
    with monkeypatch.context() as patch:
        patch.setattr(log, "_write_some", some)
        with (
            pytest.raises(FileError, match=message),
            torch.no_grad(),
            regard.record(model, path),
        ):
            model(tokens(300))
            model(tokens(300))  # by then one of them has met it
    report = check(path)
    assert report.is_whole and report.frames == 12 and not report.is_closed


def test_a_slow_disk_only_slows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, most = log._write_some, []
    dice = np.random.default_rng(0)
    arrays = [dice.integers(0, 255, FRAME if n % 3 else 50, np.uint8) for n in range(20)]
    with Writer(tmp_path / "fast") as fast:
        for n, array in enumerate(arrays):
            fast.add(str(n), array, {"what": "rows"})

    def slow(descriptor: int, parts: list[memoryview]) -> int:
        most.append(behind._held)
        time.sleep(0.01)
        return real(descriptor, [part[: FRAME // 2] for part in parts[:3]])

    writer = Writer(tmp_path / "slow")
    behind = BackgroundWriter(writer, room=ROOM)
    monkeypatch.setattr(log, "_write_some", slow)
    for n, array in enumerate(arrays):
        behind.add(str(n), array, {"what": "rows"})
    behind.close()
    assert (tmp_path / "slow").read_bytes() == (tmp_path / "fast").read_bytes()
    assert FRAME < max(most) <= ROOM


def some(size: int) -> np.ndarray[Any, Any]:
    return np.zeros(size, np.uint8)


def test_frames_stand_in_the_order_of_the_calls_whichever_is_ready_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_writer, "_LARGE", 100)
    monkeypatch.setattr(background_writer, "cores", lambda: 5)
    real, last_ready, threads = Writer.prepare, threading.Event(), set()

    def prepare(name: str, *given: Any, **more: Any) -> Any:
        made = real(name, *given, **more)
        threads.add(threading.current_thread().name)
        if name == "a3":
            last_ready.set()
        assert name != "a0" or last_ready.wait(120)
        return made

    monkeypatch.setattr(Writer, "prepare", staticmethod(prepare))
    behind = BackgroundWriter(Writer(tmp_path / "a.regard"))
    for number in range(4):
        behind.add(f"a{number}", some(100))
        behind.add(f"small{number}", some(5))
        behind.note({f"note{number}": "x"})
    behind.flush()
    truth = [f"{name}{n}" for n in range(4) for name in ("a", "small")]
    with Reader(tmp_path / "a.regard") as reader:  # which goes on
        assert list(reader) == truth and len(reader.metadata) == 4
    with pytest.raises(DTypeError, match="cannot be recorded as F32"):
        behind.add("b", some(100), dtype="F32")
        behind.add("c", some(100))
        behind.flush()
    behind.add("d", some(100))
    behind.close()
    with Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == [*truth, "d"]
    assert len([name for name in threads if name.startswith("regard-checksum")]) > 1
    assert not any(one.name.startswith("regard-") for one in threading.enumerate())


# ── an older file ────────────────────────────────────────────────────────────────────────────


def test_a_whole_recording_replaces_the_older_file(tmp_path: Path) -> None:
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    try:
        raise ValueError  # an error that is handled around the block is none of its own
    except ValueError:
        with torch.no_grad(), regard.record(model, path, overwrite=True) as recorder:
            model(tokens(9))
    assert len(recorder.tokens) == 9 and list(tmp_path.iterdir()) == [path]
