"""Memory takes what a Writer takes and gives what a Reader of the file gives."""

from __future__ import annotations

import numpy as np
import pytest

from recording.conftest import ARRAYS, WORDS, contents
from regard.errors import DTypeError, InputError
from regard.recording import Memory, Reader, Writer


def fill(store: Memory | Writer) -> None:
    """One of each."""
    store.note({"model": "tiny"})
    for name, array in ARRAYS.items():
        store.add(name, array, {"layer": "0"})
    store.add("q", WORDS, dtype="BF16")
    store.note({"model": "tiny 2"})
    store.close()


def test_it_is_the_twin_of_a_file(tmp_path):
    memory = Memory()
    fill(memory)
    with Writer(tmp_path / "a.regard") as writer:
        fill(writer)
    reader = Reader(tmp_path / "a.regard")
    assert contents(memory) == contents(reader) and memory.metadata == reader.metadata
    for name, entry in reader.entries.items():
        other = memory.entries[name]
        assert (other.name, other.dtype, other.shape) == (name, entry.dtype, entry.shape)
        assert (dict(other.metadata), other.nbytes) == (dict(entry.metadata), entry.nbytes)
        assert memory.words(name).tobytes() == reader.words(name).tobytes()
    assert list(memory) == list(reader) and len(memory) == len(reader) and "q" in memory
    assert memory.damage == reader.damage == ()


def test_bf16_is_read_as_float32():
    memory = Memory()
    memory.add("q", WORDS, dtype="BF16")
    read = memory.array("q")
    assert read.dtype == np.float32
    assert read.view(np.uint32).tolist() == [word << 16 for word in WORDS.tolist()]
    assert memory.words(memory.entries["q"]).tolist() == WORDS.tolist()


def test_what_is_kept_is_a_copy_that_cannot_be_written_to():
    given = np.zeros(3)
    memory = Memory()
    memory.add("x", given)
    given[0] = 7
    assert memory.array("x").tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        memory.array(memory.entries["x"])[0] = 1


def test_it_is_live_until_closed():
    with Memory() as memory:
        memory.add("x", np.zeros(1))
        assert memory.is_live and [one.name for one in memory.refresh()] == ["x"]
        assert memory.refresh() == []
    assert not memory.is_live and memory.array("x").tolist() == [0]
    for late in (lambda: memory.add("y", np.zeros(1)), lambda: memory.note({})):
        with pytest.raises(InputError, match="closed"):
            late()


def test_wrong_words():
    memory = Memory()
    memory.add("x", np.zeros(1))
    with pytest.raises(InputError, match="already"):
        memory.add("x", np.zeros(1))
    with pytest.raises(InputError, match="cannot name"):
        memory.add("", np.zeros(1))
    with pytest.raises(DTypeError, match="text to text"):
        memory.note({"a": 1})
    with pytest.raises(DTypeError, match="cannot be recorded"):
        memory.add("y", np.array(["a"]))
    with pytest.raises(InputError, match="holds no 'z'; it holds 'x'"):
        memory.array("z")
