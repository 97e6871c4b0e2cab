"""Between a device and the host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.recorder.background_writer import bring, send


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
