"""Processes, disks and GPUs that give out while a model is recorded: what was written is whole."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.errors import FileError
from regard.recorder import background_writer, reduce, session
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


@pytest.mark.parametrize("frames", [1, 12])
def test_a_killed_process_loses_what_waits_and_the_frame_it_was_writing(
    tmp_path: Path, frames: int
) -> None:
    path = tmp_path / "a.regard"
    command = [sys.executable, "-c", BEHIND, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        done = [int(child.stdout.readline()) for _ in range(frames)]
        child.send_signal(signal.SIGKILL)
        done += [int(line) for line in child.stdout if line.endswith("\n")]
    with Reader(path) as reader:
        # what was added and is missing fits the room
        assert len(reader) >= done[-1] + 1 - ROOM // FRAME and not reader.is_live
        assert list(reader) == [f"t{n}" for n in range(len(reader))]
        for n, name in enumerate(reader):
            assert (reader.array(name) == n % 251).all()
        assert all(one.reason == "a frame that was not finished" for one in reader.damage)


def test_a_limit_on_the_file_size_is_met_in_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "a.regard"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9_000_000, 9_000_000))\n"
    done = subprocess.run(
        [sys.executable, "-c", limit + BEHIND, str(path)], capture_output=True, text=True
    )
    said = done.stderr.splitlines()[-1]
    assert "FileError" in said and "File too large); all before byte" in said
    report = check(path)
    assert report.is_whole and report.tensors == 4


# ── disks, met by a thread while a model goes on ─────────────────────────────────────────────


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small Llama that is recorded as one on a GPU is: by threads."""
    made = tiny("llama")
    monkeypatch.setattr(background_writer, "_LARGE", 1000)
    monkeypatch.setattr(session, "_is_on_gpu", lambda model: model is made)
    return made


def recorded(model: Any, path: Path) -> list[str]:
    """The threads that wrote the file."""
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
    assert "regard-writer" in recorded(model, tmp_path / "a.regard")
    assert recorded(tiny("llama"), tmp_path / "b.regard") == ["MainThread"]
    with Reader(tmp_path / "a.regard") as a, Reader(tmp_path / "b.regard") as b:
        assert list(a) == list(b)
        assert all(np.array_equal(a.words(name), b.words(name)) for name in a)


def refusing_after(calls: int) -> Callable[[int, list[memoryview]], int]:
    """A disk that is full after so many frames."""
    real, left = log._write_some, [calls]

    def some(descriptor: int, parts: list[memoryview]) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, parts)

    return some


@pytest.mark.parametrize("frames", [12, 25])
def test_a_full_disk_is_one_sentence_whichever_thread_meets_it(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    path = tmp_path / "a.regard"
    with monkeypatch.context() as patch:
        patch.setattr(log, "_write_some", refusing_after(frames + 1))  # and the file's header
        message = r"^[^\n]*a\.regard: cannot be written \(No space left on device\); all before"
        with (
            pytest.raises(FileError, match=message),
            torch.no_grad(),
            regard.record(model, path),
        ):
            model(tokens(300))
            model(tokens(300))  # by then somebody has met it
    report = check(path)
    assert report.is_whole and report.frames == frames and not report.is_closed


def test_a_slow_disk_only_slows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, most = log._write_some, []
    dice = np.random.default_rng(0)
    arrays = [dice.integers(0, 255, FRAME if n % 3 else 50, np.uint8) for n in range(20)]
    with Writer(tmp_path / "fast") as fast:
        for n, array in enumerate(arrays):
            fast.add(str(n), array)

    def slow(descriptor: int, parts: list[memoryview]) -> int:
        most.append(behind._held)
        time.sleep(0.01)
        return real(descriptor, [part[: FRAME // 2] for part in parts[:3]])

    writer = Writer(tmp_path / "slow")
    behind = BackgroundWriter(writer, room=ROOM)
    monkeypatch.setattr(log, "_write_some", slow)
    for n, array in enumerate(arrays):
        behind.add(str(n), array)
    behind.close()
    assert (tmp_path / "slow").read_bytes() == (tmp_path / "fast").read_bytes()
    assert FRAME < max(most) <= ROOM


# ── GPUs ─────────────────────────────────────────────────────────────────────────────────────


def full(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has …")


@pytest.mark.parametrize("where", ["model", "measuring"])
def test_a_gpu_that_is_full_leaves_what_was_read(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The model's second layer, or what is measured of it, finds no memory in the second chunk."""
    path, ids = tmp_path / "a.regard", tokens(300)
    with pytest.raises(torch.OutOfMemoryError), torch.no_grad(), regard.record(model, path) as rec:
        rec.expect(600)
        cache = model(ids, use_cache=True).past_key_values
        if where == "model":
            monkeypatch.setattr(model.model.layers[1].mlp, "forward", full)
        else:
            monkeypatch.setattr(reduce, "measured", full)
        model(ids, past_key_values=cache)
    assert check(path).is_whole and check(path).is_closed
    with regard.open(path) as found:
        assert not found.prompts[0].finished
        rows = np.asarray(found["L1H0"])
        assert rows.shape[0] == (600 if where == "model" else 300)
        np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(found["L1H0"].received(), rows.sum(0), atol=1e-4)
