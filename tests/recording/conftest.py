"""A small recording with every kind of frame in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.recording import Folder, Memory, Reader, Writer
from regard.recording.format.write import Series, extend

ARRAYS = {
    "L0/lse": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    "L0/keys": np.array([[3, -1], [0, 2]], np.int64),
    "L1/seen": np.array([True, False, True]),
    "L1/none": np.zeros((0, 4), np.float16),
    "steps": np.float64(7.5),
}
WORDS = np.array([0x3F80, 0xC000, 0x7FC0, 0x0001], np.uint16)  # bf16: 1, −2, NaN, the smallest
SERIES = [
    Series(["flags", "nothing"], [(3,), (0, 2)], np.array([True, False, True])),
    Series(["a/lse", "b/lse"], [(2, 2), (2, 1)], np.arange(6, dtype=np.float32)),
    Series(["words"], [WORDS.shape], WORDS, "BF16"),
    Series(["totals"], [(2, 2)], np.arange(4.0).reshape(2, 2)),
]


def record(path: Path) -> Path:
    """Write the arrays above, some bf16 words and two notes."""
    with Writer(path) as writer:
        writer.note({"model": "tiny", "prompt": "the cat — sat"})
        for name, array in ARRAYS.items():
            writer.add(name, array, {"layer": name[1]} if "/" in name else None)
        writer.add("q", WORDS, {"layer": "0", "heads": "0:2"}, dtype="BF16")
        writer.note({"model": "tiny 2"})
    return path


def put(path: Path, raw: bytes) -> None:
    """These bytes in place of a file's: to empty it first waits for the disk on some systems."""
    with path.open("r+b") as file:
        file.write(raw)
        file.truncate()


def contents(store: Reader | Folder | Memory) -> dict[str, tuple[Any, ...]]:
    """Everything a store gives, for comparison to the bit."""
    return {
        name: (entry.dtype, entry.shape, dict(entry.metadata), store.array(name).tobytes())
        for name, entry in store.entries.items()
    }


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The small recording, fresh."""
    return record(tmp_path / "small.regard")


@pytest.fixture
def busy(small: Path) -> Path:
    """The same gone on with, by several tensors in one frame: an index in the middle too."""
    with extend(small) as writer:
        writer.add_many(SERIES, {"names": "x"})
        writer.note({"model": "tiny 3"})
    return small


def refusing(error: int) -> Callable[..., Any]:
    """A system call that fails."""

    def call(*_: Any, **__: Any) -> Any:
        raise OSError(error, os.strerror(error))

    return call
