"""Whatever was done to a file, and in whatever order, it reads as the sum of what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from recording.conftest import contents
from regard.errors import InputError
from regard.recording import Memory, Reader, Writer, check, repair
from regard.recording.format.write import annotate, extend

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = TEXTS.filter(lambda name: name not in ("", "__metadata__"))
FACTS = st.dictionaries(TEXTS, TEXTS, max_size=3)
DTYPES = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(
        dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    )
)
ACTS = st.one_of(
    st.tuples(st.just("add"), NAMES, ARRAYS, FACTS),
    st.tuples(st.just("note"), FACTS),
    st.tuples(st.sampled_from(["reopen", "annotate", "look", "stop", "tear"])),
)


class File:
    """A file that things are done to, and what it should hold by now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = Writer(path)
        self.held: dict[str, np.ndarray] = {}
        self.metadata: dict[str, str] = {}

    def add(self, name: str, array: np.ndarray, facts: dict[str, str]) -> None:
        if name in self.held:
            with pytest.raises(InputError, match="already"):
                self.writer.add(name, array, facts)
            return
        self.writer.add(name, array, facts)
        self.held[name] = array

    def note(self, facts: dict[str, str]) -> None:
        self.writer.note(facts)
        self.metadata |= facts

    def reopen(self) -> None:
        self.writer.close()
        self.writer = extend(self.path)

    def annotate(self) -> None:
        self.writer.close()
        annotate(self.path, {"said": str(len(self.held))})
        self.metadata["said"] = str(len(self.held))
        self.writer = extend(self.path)

    def stop(self) -> None:
        """Its process is killed, and another one goes on."""
        raw = self.path.read_bytes()
        self.writer.close()
        self.path.write_bytes(raw)
        self.writer = extend(self.path)

    def tear(self) -> None:
        """A frame is begun and never finished; then the file is repaired."""
        self.writer.close()
        whole = self.path.read_bytes()
        with extend(self.path) as writer:
            writer.add("torn", np.arange(100))
        torn = self.path.read_bytes()
        self.path.write_bytes(torn[: len(whole) + 200])
        assert not check(self.path).is_whole
        assert repair(self.path).is_whole
        self.writer = extend(self.path)

    def look(self) -> None:
        with Reader(self.path) as reader:
            self.compare(reader)
            assert reader.is_live

    def compare(self, reader: Any) -> None:
        assert list(reader) == list(self.held) and reader.damage == ()
        assert reader.metadata == self.metadata
        for name, array in self.held.items():
            found = reader.array(name)
            assert found.dtype == array.dtype and found.shape == array.shape
            assert found.tobytes() == array.tobytes() and not found.flags.writeable


@settings(max_examples=40, deadline=None)
@given(st.lists(ACTS, max_size=9))
def test_any_history_is_read_back(tmp_path_factory: Any, acts: list[Any]) -> None:
    file = File(tmp_path_factory.mktemp("history") / "a.regard")
    for act, *words in acts:
        getattr(file, act)(*words)
    file.writer.close()
    assert check(file.path).is_whole and check(file.path).tensors == len(file.held)
    with Reader(file.path) as reader:
        file.compare(reader)
        assert reader.is_closed and not reader.is_live


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(ARRAYS, st.booleans(), FACTS), max_size=10))
def test_who_follows_a_file_sees_what_who_comes_late_sees(
    tmp_path_factory: Any, steps: list[tuple[np.ndarray, bool, dict[str, str]]]
) -> None:
    path = tmp_path_factory.mktemp("follow") / "a.regard"
    with Writer(path) as writer, Reader(path) as follower:
        pending: list[str] = []
        for number, (array, looks, facts) in enumerate(steps):
            writer.add(f"t{number}", array)
            writer.note(facts)
            pending.append(f"t{number}")
            if looks:
                assert [entry.name for entry in follower.refresh()] == pending
                pending = []
                with Reader(path) as late:
                    assert contents(late) == contents(follower)
                    assert late.metadata == follower.metadata
        assert [entry.name for entry in follower.refresh()] == pending
        assert follower.refresh() == [] and len(follower) == len(steps)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(NAMES, ARRAYS, FACTS), max_size=6), FACTS)
def test_memory_holds_what_a_file_would(
    tmp_path_factory: Any,
    given: list[tuple[str, np.ndarray, dict[str, str]]],
    facts: dict[str, str],
) -> None:
    memory, path = Memory(), tmp_path_factory.mktemp("twin") / "a.regard"
    with Writer(path) as writer:
        for store in (memory, writer):
            for name, array, said in {name: (name, a, s) for name, a, s in given}.values():
                store.add(name, array, said)
            store.note(facts)
    with Reader(path) as reader:
        assert contents(reader) == contents(memory) and reader.metadata == memory.metadata
        for name, entry in reader.entries.items():
            assert dict(entry.metadata) == dict(memory.entries[name].metadata)
            assert entry.nbytes == memory.entries[name].nbytes


@given(
    arrays.arrays("<f4", arrays.array_shapes(max_dims=3, max_side=6)),
    st.sampled_from(["C", "F", "reversed", "big-endian", "every other"]),
)
def test_how_an_array_lies_in_memory_does_not_matter(array: np.ndarray, lies: str) -> None:
    given = {
        "C": lambda: np.ascontiguousarray(array),
        "F": lambda: np.asfortranarray(array),
        "reversed": lambda: np.ascontiguousarray(array[::-1])[::-1],
        "big-endian": lambda: array.astype(">f4"),
        "every other": lambda: np.repeat(array, 2, axis=0)[::2],
    }[lies]()
    memory = Memory()
    memory.add("x", given)
    found = memory.array("x")
    assert found.dtype == np.dtype("<f4") and found.flags.c_contiguous
    np.testing.assert_array_equal(found, array)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_cut_anywhere_leaves_the_first_acts(tmp_path_factory: Any, data: Any) -> None:
    """A reader of a file that was cut, and one of a file that was repaired, see the same."""
    path = tmp_path_factory.mktemp("cut") / "a.regard"
    names = [f"t{n}" for n in range(data.draw(st.integers(1, 5)))]
    with Writer(path) as writer:
        for number, name in enumerate(names):
            writer.add(name, np.arange(40 * number + 1))
    raw = path.read_bytes()
    path.write_bytes(raw[: data.draw(st.integers(64, len(raw)))])
    with Reader(path) as torn:
        before = contents(torn)
    assert list(before) == names[: len(before)]
    repaired = repair(path)
    assert repaired.is_whole and repaired.is_closed and repaired.tensors == len(before)
    with Reader(path) as reader:
        assert contents(reader) == before and reader.damage == ()
