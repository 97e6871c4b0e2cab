"""A small recording with every kind of frame in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.recording import Reader, Writer

ARRAYS = {
    "L0/lse": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    "L0/keys": np.array([[3, -1], [0, 2]], np.int64),
    "L1/seen": np.array([True, False, True]),
    "L1/none": np.zeros((0, 4), np.float16),
    "steps": np.float64(7.5),
}
WORDS = np.array([0x3F80, 0xC000, 0x7FC0, 0x0001], np.uint16)  # bf16: 1, −2, NaN, the smallest


def record(path: Path) -> Path:
    """Write the arrays above, some bf16 words and two notes."""
    with Writer(path) as writer:
        writer.note({"model": "tiny", "prompt": "the cat — sat"})
        for name, array in ARRAYS.items():
            writer.add(name, array, {"layer": name[1]} if "/" in name else None)
        writer.add("q", WORDS, {"layer": "0", "heads": "0:2"}, dtype="BF16")
        writer.note({"model": "tiny 2"})
    return path


def contents(reader: Reader) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Everything a reader gives, for comparison to the bit."""
    return {
        name: (entry.dtype, entry.shape, reader.array(entry).tobytes())
        for name, entry in reader.entries.items()
    }


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The small recording, fresh."""
    return record(tmp_path / "small.regard")
