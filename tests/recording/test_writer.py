"""Writing: whatever was done to a file, and in whatever order, it reads as the sum of what was
done; what cannot be written is one sentence, and leaves the file as it was."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from recording.conftest import contents, put, record
from recording.spec import read_frames
from regard.errors import DTypeError, FileError, InputError
from regard.recording import Memory, Reader, Writer, check, repair
from regard.recording.format.write import Series, annotate, extend

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = TEXTS.filter(lambda name: name not in ("", "__metadata__"))
FACTS = st.dictionaries(TEXTS, TEXTS, max_size=3)
DTYPES = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "reversed": lambda array: np.ascontiguousarray(array[::-1])[::-1] if array.ndim else array,
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "every other": lambda array: np.repeat(array, 2, axis=0)[::2] if array.ndim else array,
}
ARRAY = st.builds(
    lambda array, layout: LAYOUTS[layout](array),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays.arrays(
            dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
        )
    ),
    st.sampled_from(sorted(LAYOUTS)),
)
ACTS = st.one_of(
    st.tuples(st.just("add"), NAMES, ARRAY, FACTS),
    st.tuples(st.just("add_many"), st.lists(st.tuples(NAMES, ARRAY), max_size=3), FACTS),
    st.tuples(st.just("note"), FACTS),
    st.tuples(st.sampled_from(["reopen", "annotate", "look", "stop", "tear"])),
)


class File:
    """A file that things are done to, who follows it from its beginning, and what holds the same
    without a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = Writer(path)
        self.follower = Reader(path)
        self.twin = Memory()
        self.held: dict[str, np.ndarray] = {}

    def both(self, act: str, *given: Any) -> None:
        for store in (self.writer, self.twin):
            getattr(store, act)(*given)

    def add(self, name: str, array: np.ndarray, facts: dict[str, str]) -> None:
        if name in self.held:
            for store in (self.writer, self.twin):
                with pytest.raises(InputError, match="already"):
                    store.add(name, array, facts)
            return
        self.both("add", name, array, facts)
        self.held[name] = array

    def add_many(self, some: list[tuple[str, np.ndarray]], facts: dict[str, str]) -> None:
        new = {name: array for name, array in some if name not in self.held}
        series = [Series([name], [array.shape], array) for name, array in new.items()]
        if not series:
            return
        self.both("add_many", series, facts)
        order = sorted(new, key=lambda name: -new[name].dtype.itemsize)
        self.held |= {name: new[name] for name in order}

    def note(self, facts: dict[str, str]) -> None:
        self.both("note", facts)

    def reopen(self) -> None:
        self.writer.close()
        before = self.path.read_bytes()
        self.writer = extend(self.path)
        self.writer.note({})
        assert self.path.read_bytes().startswith(before)  # no byte that is there is touched

    def annotate(self) -> None:
        """Where another process has finished it."""
        facts = {"count": str(len(self.held))}
        self.writer.close()
        before = self.path.read_bytes()
        annotate(self.path, facts)
        assert self.path.read_bytes().startswith(before)
        self.twin.note(facts)
        self.writer = extend(self.path)

    def stop(self) -> None:
        """Its process is killed, and another one goes on."""
        raw = self.path.read_bytes()
        self.writer.close()
        put(self.path, raw)
        self.writer = extend(self.path)

    def tear(self) -> None:
        """A frame is begun and never finished; then the file is repaired."""
        self.writer.close()
        size = self.path.stat().st_size
        with extend(self.path) as writer:
            writer.add("torn", np.arange(100))
        os.truncate(self.path, size + 200)
        assert not check(self.path).is_whole and repair(self.path).is_whole
        self.writer = extend(self.path)

    def look(self) -> None:
        with Reader(self.path) as late:
            self.compare(late)
            assert late.is_live and not check(self.path).damage
        before = len(self.follower)
        assert [entry.name for entry in self.follower.refresh()] == list(self.held)[before:]
        self.compare(self.follower)

    def compare(self, reader: Reader) -> None:
        assert list(reader) == list(self.twin) == list(self.held) and reader.damage == ()
        assert reader.metadata == self.twin.metadata
        assert contents(reader) == contents(self.twin)
        for name, array in self.held.items():
            read, entry = reader.array(name), reader.entries[name]
            assert read.dtype == array.dtype.newbyteorder("<") and read.shape == array.shape
            assert read.tobytes() == array.astype(read.dtype).tobytes()
            assert not read.flags.writeable and read.flags.c_contiguous
            assert entry.nbytes == self.twin.entries[name].nbytes == array.nbytes


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTS, max_size=10))
def test_any_history_is_read_back(tmp_path_factory: Any, acts: list[Any]) -> None:
    """By who comes late and who follows, from the file and from memory, to the bit."""
    file = File(tmp_path_factory.mktemp("history") / "a.regard")
    for act, *given_ in acts:
        getattr(file, act)(*given_)
    file.look()
    file.writer.close()
    file.twin.close()
    report = check(file.path)
    assert report.is_whole and report.tensors == len(file.held)
    list(read_frames(file.path.read_bytes()))  # every byte is as SPEC.md has it
    with Reader(file.path) as reader:
        file.compare(reader)
        assert reader.is_closed and not reader.is_live
        assert file.follower.refresh() == []
    file.follower.close()


def test_a_folder_takes_notes_into_its_lowest_rank(tmp_path):
    paths = {rank: record(tmp_path / f"rank-{rank:04}.regard") for rank in (3, 1)}
    before = paths[3].read_bytes()
    annotate(tmp_path, {"n": "1"})
    with Reader(paths[1]) as reader:
        assert reader.metadata["n"] == "1" and paths[3].read_bytes() == before


def test_long_slices_are_written_without_a_copy_and_as_their_copy_is(tmp_path):
    """One call of the system takes only so many pieces."""
    whole = np.zeros((1100, 2, 16_500), np.float32)
    whole[:, 0] = np.arange(1100, dtype=np.float32)[:, None]
    part = whole[:, :1]
    with Writer(tmp_path / "slice.regard") as writer:
        tracemalloc.start()
        writer.add("few", whole[:900, 1:, 3:])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()
        writer.add("many", part)
        writer.add("steps", whole.T[::2, 1, :9])
    with Reader(tmp_path / "slice.regard") as reader:
        assert not reader.array("few").any() and (reader.array("many") == part).all()
        assert (reader.array("steps") == whole.T[::2, 1, :9]).all()


def test_threads_may_share_a_writer(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:

        def add(thread: int) -> None:
            for n in range(50):
                writer.add(f"{thread}/{n}", np.full(n, thread))

        threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report = check(tmp_path / "a.regard")
    assert report.is_whole and report.tensors == 200


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    """A file or memory, with one tensor in it."""
    with Memory() if request.param == "memory" else Writer(tmp_path / "a.regard") as made:
        made.add("x", np.zeros(3))
        yield made


@pytest.mark.parametrize(
    ("act", "given_", "error", "says"),
    [
        ("add", ("y", np.array(["text"])), DTypeError, "<U4 cannot be recorded"),
        ("add", ("y", np.array([object()])), DTypeError, "cannot be recorded"),
        ("add", ("y", np.array([1j])), DTypeError, "cannot be recorded"),
        ("add", ("y", np.zeros(2, [("a", "f4")])), DTypeError, "cannot be recorded"),
        ("add", ("x", np.zeros(1)), InputError, "'x' is in the recording already"),
        ("add", ("", np.zeros(1)), InputError, "'' cannot name a tensor"),
        ("add", ("__metadata__", np.zeros(1)), InputError, "cannot name a tensor"),
        ("add", (3, np.zeros(1)), InputError, "cannot name a tensor"),
        ("add", ("y", np.zeros(1), {"layer": 3}), DTypeError, "'layer' is not text to text"),
        ("note", ({"layer": 3},), DTypeError, "'layer' is not text to text; give str"),
        ("add_many", ([Series(["y", "x"], [(1,), (2,)], np.ones(3))],), InputError, "already"),
        ("add_many", ([Series(["y", "y"], [(1,), (2,)], np.ones(3))],), InputError, "already"),
        ("add_many", ([Series(["y", ""], [(1,), (2,)], np.ones(3))],), InputError, "cannot name"),
    ],
)
def test_what_cannot_be_recorded(store, act, given_, error, says):
    with pytest.raises(error, match=says):
        getattr(store, act)(*given_)
    if act == "add" and given_[0] != "x":
        store.add("y", np.zeros(1))  # the name is free still


@pytest.mark.parametrize("dtype", ["BF16", "F64"])
def test_words_of_another_size_are_no_bf16(store, dtype):
    with pytest.raises(DTypeError, match=f"float32 cannot be recorded as {dtype}"):
        store.add("y", np.zeros(2, np.float32), dtype=dtype)


def test_what_a_file_cannot_hold(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        for name, facts in (("\ud800", {}), ("x", {"n": "\ud800"})):
            with pytest.raises(InputError, match="lone surrogates"):
                writer.add(name, np.zeros(1), facts)
        with pytest.raises(InputError, match=r"a frame takes .* add a U8 tensor instead"):
            writer.note({"prompt": "x" * (16 << 20)})
        with pytest.raises(InputError, match="another size"):
            writer.add_many([Series(["x", "y"], [(1,), (3,)], np.ones(3))])
    assert [one.kind for one in read_frames(writer.path.read_bytes())] == [b"INDX"]


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    for late in (lambda: store.add("y", np.zeros(1)), lambda: store.note({})):
        with pytest.raises(InputError, match="closed"):
            late()


def test_memory_keeps_a_copy():
    given_ = np.zeros(3)
    with Memory() as memory:
        memory.add("x", given_)
        given_[0] = 7
        assert memory.is_live and [entry.name for entry in memory.refresh()] == ["x"]
        assert memory.refresh() == []
    assert not memory.is_live and memory.array("x").tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="holds no 'z'; it holds 'x'"):
        memory.array("z")


# ── a file that is there already ─────────────────────────────────────────────────────────────


def test_an_existing_file_is_refused(small):
    before = small.read_bytes()
    with pytest.raises(FileError, match=r"exists already; .* overwrite=True"):
        Writer(small)
    assert small.read_bytes() == before


def test_overwriting_leaves_the_old_file_to_its_readers(small):
    with Reader(small) as old:
        before = contents(old)
        with Writer(small, overwrite=True) as writer:
            writer.add("new", np.ones(2))
        assert contents(old) == before
    assert list(Reader(small)) == ["new"] and [*small.parent.iterdir()] == [small]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_only_a_whole_recording_takes_the_place_of_an_older_one(small, error):
    before = small.read_bytes()
    for name in ("small.regard.partial", "small.regard.partial2"):
        with pytest.raises(error) as caught, Writer(small, overwrite=True) as writer:
            assert writer.path == small.with_name(name)
            writer.add("new", np.ones(2))
            raise error
        assert small.read_bytes() == before
        assert caught.value.__notes__ == [
            f"what was recorded until then is in {small.with_name(name)}; {small} is as it was"
        ]
        assert list(Reader(small.with_name(name))) == ["new"]
    with Writer(small, overwrite=True) as writer:
        writer.add("new", np.ones(2))
    assert writer.path == small and list(Reader(small)) == ["new"]


def test_what_is_new_is_written_in_its_place_with_the_permissions_of_any_file(tmp_path):
    path, before = tmp_path / "a.regard", os.umask(0o027)
    try:
        for _ in range(2):  # the second takes the place of the first
            with Writer(path, overwrite=True) as writer:
                writer.add("x", np.ones(2))
                assert list(Reader(path)) == ["x"]  # the first can be watched while it grows
            assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_nothing_but_a_file_is_replaced_or_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    for name in before:
        with pytest.raises(FileError, match=r"a (pipe|folder|device), not a file"):
            Writer(tmp_path / name, overwrite=True)
        with pytest.raises(FileError, match="not a file"):
            Reader(tmp_path / name)
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == before


def test_a_link_stays_one(tmp_path, small):
    link = tmp_path / "elsewhere" / "link.regard"
    link.parent.mkdir()
    link.symlink_to(small)
    with Writer(link, overwrite=True) as writer:
        writer.add("new", np.ones(2))
        assert writer.path.parent == small.parent
    assert link.is_symlink() and list(Reader(small)) == ["new"]


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        writer.add("x", np.ones(2))
        for other in (
            lambda: Writer(path, overwrite=True), lambda: extend(path),
            lambda: annotate(path, {"n": "1"}), lambda: repair(path),
        ):  # fmt: skip
            with pytest.raises(FileError, match="being written by another process"):
                other()
    Writer(path, overwrite=True).close()


@pytest.mark.parametrize("name", ["none/a.regard", "zero\0.regard", "two\nlines/a.regard"])
def test_a_path_that_cannot_be(tmp_path, name):
    for ask, says in (
        (lambda: Writer(tmp_path / name), "cannot be created"),
        (lambda: Writer(tmp_path / name, overwrite=True), "cannot be created"),
        (lambda: Reader(tmp_path / name), "no such file|cannot be opened"),
        (lambda: extend(tmp_path / name), "no such file|cannot be opened"),
    ):
        with pytest.raises(FileError, match=says) as error:
            ask()
        assert "\n" not in str(error.value) and "\0" not in str(error.value)


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def test_opening_costs_the_same_however_large_the_file(tmp_path, monkeypatch):
    """Everything is listed from the index; arrays are views of the mapped file."""
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("big", np.zeros(4 << 20, np.uint8))
        writer.add("small", np.arange(6).reshape(2, 3))
    tracemalloc.start()
    with Reader(tmp_path / "a.regard") as reader:
        array = reader.array("big")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
        assert reader.array("small").ctypes.data % 64 == 0 and not array.flags.owndata
    assert array.size == 4 << 20 and not array.any()  # it outlives its reader
    with pytest.raises(InputError, match="this reader is closed"):
        reader.array("big")


def test_bf16_is_read_as_float32_and_its_words_as_they_are(small):
    with Reader(small) as reader:
        numbers, words = reader.array("q"), reader.words("q")
    assert numbers.dtype == np.float32 and words.dtype == np.uint16
    assert (numbers.view(np.uint32) == words.astype(np.uint32) << 16).all()
    assert numbers[:2].tolist() == [1, -2] and np.isnan(numbers[2])


def test_what_is_not_there(small, tmp_path):
    with Writer(tmp_path / "b.regard") as writer:
        writer.add("q", np.zeros(3))
    with Reader(small) as reader, Reader(tmp_path / "b.regard") as other:
        assert "q" in reader and "k" not in reader
        with pytest.raises(InputError, match="holds no 'nope'; it holds 'L0/lse'"):
            reader.array("nope")
        with pytest.raises(InputError, match="holds no 'q'"):
            other.array(reader.entries["q"])  # of another file
