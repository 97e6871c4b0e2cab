"""A store that writes a bounded way behind."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard import recording
from regard.errors import DTypeError, FileError
from regard.recorder import background_writer
from regard.recorder.background_writer import BackgroundWriter, bring, send
from regard.recording import Writer


class Slow:
    """A store that writes only while its gate is open, and fails at one name."""

    def __init__(self, bad: str = "") -> None:
        self.gate, self.bad = threading.Event(), bad
        self.names: list[str] = []
        self.closed = 0

    def add(
        self,
        name: str,
        array: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor."""
        assert self.gate.wait(120)
        if name == self.bad:
            raise FileError(f"{name}: cannot be written (the disk is full)")
        self.names.append(name)

    def note(self, metadata: Mapping[str, str]) -> None:
        """A fact."""
        assert self.gate.wait(120)
        self.names += metadata

    def close(self) -> None:
        """No more."""
        self.closed += 1


def some(size: int) -> np.ndarray[Any, Any]:
    return np.zeros(size, np.uint8)


def test_a_file_written_behind_is_the_same_file(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    arrays = {f"a{n}": dice.standard_normal((n + 1, 50)).astype(np.float32) for n in range(40)}
    for name, behind in (("plain", False), ("behind", True)):
        writer = Writer(tmp_path / name)
        store = BackgroundWriter(writer, room=1000) if behind else writer
        store.note({"model": "made"})
        for number, array in arrays.items():
            store.add(number, array, {"what": "rows"})
        store.close()
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "behind").read_bytes()


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
    behind.close()
    with recording.Reader(tmp_path / "a.regard") as reader:
        truth = [f"{name}{n}" for n in range(4) for name in ("a", "small")]
        assert list(reader) == truth and len(reader.metadata) == 4
    assert len([name for name in threads if name.startswith("regard-checksum")]) > 1
    assert not any(one.name.startswith("regard-") for one in threading.enumerate())


def test_what_cannot_be_prepared_is_told_and_nothing_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_writer, "_LARGE", 100)
    behind = BackgroundWriter(Writer(tmp_path / "a.regard"))
    behind.add("a", some(100))
    behind.flush()
    with pytest.raises(DTypeError, match="cannot be recorded as F32"):
        behind.add("b", some(100), dtype="F32")
        behind.add("c", some(100))
        behind.add("d", some(100))
        behind.flush()
    behind.add("e", some(100))
    behind.close()
    with recording.Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["a", "e"]


def test_adding_does_not_wait_while_there_is_room() -> None:
    store = Slow()
    behind = BackgroundWriter(store, room=100)
    behind.add("a", some(40))
    behind.add("b", some(40))
    assert store.names == []
    store.gate.set()
    behind.flush()
    assert store.names == ["a", "b"]
    behind.close()


def test_adding_waits_where_too_much_waits_already() -> None:
    store = Slow()
    behind = BackgroundWriter(store, room=100)
    behind.add("a", some(60))
    waits = threading.Thread(target=behind.add, args=("b", some(60)))
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()
    store.gate.set()
    waits.join(120)
    behind.close()
    assert store.names == ["a", "b"]


def test_what_is_larger_than_the_room_still_passes() -> None:
    store = Slow()
    store.gate.set()
    behind = BackgroundWriter(store, room=10)
    behind.add("large", some(1000))
    behind.close()
    assert store.names == ["large"]


def test_an_error_reaches_whoever_calls_next_and_nothing_follows_it() -> None:
    store = Slow(bad="b")
    behind = BackgroundWriter(store)
    for name in "abc":
        behind.add(name, some(1))
    store.gate.set()
    with pytest.raises(FileError, match="the disk is full"):
        behind.flush()
    assert store.names == ["a"]
    behind.close()
    assert store.closed == 1


def test_closing_tells_of_an_error_and_closes_nevertheless() -> None:
    store = Slow(bad="a")
    behind = BackgroundWriter(store)
    behind.add("a", some(1))
    store.gate.set()
    with pytest.raises(FileError):
        behind.close()
    assert store.closed == 1


def test_what_was_flushed_can_be_read_while_the_recording_goes_on(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.regard")
    behind = BackgroundWriter(writer)
    behind.add("x", np.arange(3))
    behind.flush()
    with recording.Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["x"]
    behind.close()


# ── between a device and the host ──────────────────────────────────────────────────────────────


def test_on_the_host_an_array_is_the_tensor_itself() -> None:
    given = {"a": torch.randn(3, 4), "b": torch.arange(5)[::2]}
    found = bring(given)()
    assert list(found) == ["a", "b"]
    assert found["a"].ctypes.data == given["a"].data_ptr()
    np.testing.assert_array_equal(found["b"], [0, 2, 4])


def test_a_gradient_is_not_lost_in_silence() -> None:
    with pytest.raises(RuntimeError, match="requires grad"):
        bring({"a": torch.randn(3, requires_grad=True)})()


def test_on_the_host_nothing_is_sent() -> None:
    given = torch.arange(3)
    assert send(given, torch.device("cpu")) is given


class Elsewhere:
    """What `bring` asks of a tensor on a GPU, whose numbers come when its stream is waited for."""

    device, shape, dtype = torch.device("cuda", 1), (3,), torch.int64

    def contiguous(self) -> Elsewhere:
        return self


class Stream:
    """Remembers what was asked of it, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.copies: list[torch.Tensor] = []

    def record_event(self) -> Any:
        self.log.append("event")
        return SimpleNamespace(synchronize=self.arrive)

    def arrive(self) -> None:
        self.log.append("waited")
        for number, copy in enumerate(self.copies):
            copy.fill_(number + 1)


def test_copies_begin_at_once_and_are_waited_for_when_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream()

    def empty(shape: Any, *, dtype: Any, device: Any, pin_memory: bool) -> Any:
        assert device == "cpu" and pin_memory  # else the GPU's host would have to wait
        made = torch.zeros(shape, dtype=dtype)

        def copy_(source: Any, non_blocking: bool) -> torch.Tensor:
            assert non_blocking and isinstance(source, Elsewhere)
            stream.log.append("copy")
            stream.copies.append(made)
            return made

        return SimpleNamespace(copy_=copy_)

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "current_stream", {Elsewhere.device: stream}.__getitem__)
    given: dict[str, Any] = {"a": Elsewhere(), "b": Elsewhere(), "here": torch.arange(2)}
    arrived = bring(given)
    assert stream.log == ["copy", "copy", "event"]
    found = arrived()
    assert stream.log == ["copy", "copy", "event", "waited"]
    assert {name: array.tolist() for name, array in found.items()} == {
        "a": [1, 1, 1], "b": [2, 2, 2], "here": [0, 1],
    }  # fmt: skip
