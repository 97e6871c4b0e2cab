"""What a recording is read from: a file, a folder of one file per rank, or memory. All answer
alike: everything is listed at once, data is mapped and checked when asked for."""

from __future__ import annotations

import math
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from regard.errors import FileError, InputError
from regard.files import is_folder, shown
from regard.recording.format.frames import Catalogue, Damage, Found, Source, rank_files
from regard.recording.format.layout import DTYPES, INDX, MANY, META, TENS, Frame
from regard.recording.format.write import (
    Series,
    as_words,
    check_facts,
    check_name,
    stored_order,
)

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Listed:
    """One tensor, known without its data."""

    name: str  # unique in its store
    dtype: str  # as SPEC.md names it; BF16 is read as float32
    shape: tuple[int, ...]
    metadata: Mapping[str, str]

    @property
    def nbytes(self) -> int:
        """Bytes of data as stored."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


class Store(Protocol):
    """Tensors by name, and notes."""

    @property
    def entries(self) -> Mapping[str, Listed]:
        """Every tensor, without its data."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The notes."""

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What could not be read."""

    @property
    def is_live(self) -> bool:
        """Whether somebody is still writing."""

    def array(self, which: str) -> Array:
        """The tensor, read-only; bf16 as float32."""

    def words(self, which: str) -> Array:
        """The tensor as it is stored, read-only; bf16 as its 16-bit words."""

    def refresh(self) -> Sequence[Listed]:
        """Look at what was added since; the new entries."""

    def close(self) -> None:
        """Let go of what is held."""


class Shelf(ABC):
    """Tensors by name, in a block: what a file, a folder of ranks and memory have in common."""

    entries: Any  # name → one tensor, without its data

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""

    def _missing(self, name: str, whose: str) -> InputError:
        """Why there is no tensor of that name, and some that there are."""
        some = ", ".join(map(repr, list(self.entries)[:5])) or "no tensor at all"
        return InputError(f"{whose} holds no {name!r}; it holds {some}")

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


def decoded(words: Array, dtype: str) -> Array:
    """Words as numbers one can compute with: bf16 and fp16 as float32, others as they are."""
    if dtype == "BF16":
        wide = words.astype("<u4")
        wide <<= 16
        return wide.view("<f4")
    return words.astype(np.float32) if dtype == "F16" else words


@dataclass(frozen=True)
class Entry(Listed):
    """One tensor of a recording, and where it lies."""

    frame: Frame
    span: tuple[int, int]  # its bytes, among the data of the frame


class Reader(Shelf):
    """An open recording. A damaged or unfinished tail is left out, and `damage` says so."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._source = Source(self.path)
        self._catalogue = Catalogue(self._source)
        self._map: mmap.mmap | None = None
        self._checked: set[int] = set()  # frames, by their offsets
        self._booleans: set[str] = set()  # tensors that hold nothing else
        self._listed = 0
        self.entries: dict[str, Entry] = {}
        self.metadata: dict[str, str] = {}
        try:
            if not self._catalogue.load_index():
                self._catalogue.walk()
            self._take_in()
        except BaseException:
            self.close()
            raise

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What could not be read, in the order of the file; empty where all is well."""
        return tuple(self._catalogue.damage)

    @property
    def is_closed(self) -> bool:
        """Whether an index ends the file; else its writer is at work, or was stopped."""
        frames = self._catalogue.frames
        return bool(frames) and frames[-1].frame.kind == INDX

    @property
    def is_live(self) -> bool:
        """Whether somebody is still writing the file."""
        return self._source.is_live()

    def refresh(self) -> list[Entry]:
        """Look at what was appended since; the new entries."""
        before = len(self.entries)
        self._check_size()
        self._catalogue.walk()
        self._take_in()
        return list(self.entries.values())[before:]

    def array(self, which: str | Entry) -> npt.NDArray[Any]:
        """The tensor, read-only, in the mapped file where it can be; bf16 as a float32 copy.

        Its checksum is checked the first time; a wrong one is a FileError.
        """
        entry = self._entry(which)
        words = self.words(entry)
        if entry.dtype == "BF16":
            words = decoded(words, "BF16")
            words.flags.writeable = False
        return words

    def words(self, which: str | Entry) -> npt.NDArray[Any]:
        """The tensor as it is stored, read-only in the mapped file; bf16 as its 16-bit words."""
        entry = self._entry(which)
        raw = self._bytes(entry.frame)
        if entry.frame.offset not in self._checked:
            self._check(entry, raw)
        own = raw[slice(*entry.span)]
        if entry.dtype == "BOOL" and entry.name not in self._booleans:
            if own.size and own.max() > 1:
                raise FileError(f"{self._source.name}: {entry.name!r} has values that are not BOOL")
            self._booleans.add(entry.name)
        return own.view(DTYPES[entry.dtype]).reshape(entry.shape)

    def close(self) -> None:
        """Let the file go; arrays that were handed out stay valid."""
        self._map = None
        self._source.close()

    def _take_in(self) -> None:
        """Entries and metadata of the frames that are new."""
        for found in self._catalogue.frames[self._listed :]:
            if found.frame.kind in (TENS, MANY):
                self.entries |= _entries_of(found)
            elif found.frame.kind == META:
                self.metadata |= found.document.metadata
        self._listed = len(self._catalogue.frames)

    def _entry(self, which: str | Entry) -> Entry:
        entry = self.entries.get(which.name if isinstance(which, Entry) else which)
        if entry is None or (isinstance(which, Entry) and which != entry):
            name = which.name if isinstance(which, Entry) else which
            raise self._missing(name, self._source.name)
        return entry

    def _check_size(self) -> None:
        if self._source.file.closed:
            raise InputError(f"{self._source.name}: this reader is closed; open a new one")
        if self._source.size() < self._catalogue.end:
            raise FileError(f"{self._source.name}: has shrunk since it was opened; open it again")

    def _bytes(self, frame: Frame) -> npt.NDArray[np.uint8]:
        """The frame's data where it is mapped."""
        self._check_size()
        end = frame.payload + frame.length
        if self._map is None or len(self._map) < end:
            self._map = self._mapped()
        return np.frombuffer(self._map, np.uint8, end - frame.data, frame.data)

    def _mapped(self) -> mmap.mmap:
        try:
            descriptor = self._source.file.fileno()
            return mmap.mmap(descriptor, self._catalogue.end, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise FileError(f"{self._source.name}: cannot be mapped ({error})") from None

    def _check(self, entry: Entry, raw: npt.NDArray[np.uint8]) -> None:
        frame = entry.frame
        try:
            self._source.check_present(frame)
        except FileError as error:
            raise FileError(f"{self._source.name}: {entry.name!r}: {error}") from None
        if crc32(raw.data, frame.head_crc) != frame.crc:
            raise FileError(
                f"{self._source.name}: {entry.name!r} at byte {frame.offset} is damaged (wrong "
                "checksum); the rest can be read"
            )
        self._checked.add(frame.offset)


def _entries_of(found: Found) -> dict[str, Entry]:
    facts, frame = MappingProxyType(found.document.metadata), found.frame
    return {
        one.name: Entry(one.name, one.dtype, one.shape, facts, frame, (one.start, one.end))
        for one in found.document.tensors
    }


@dataclass(frozen=True)
class FolderEntry(Entry):
    """An entry that also knows which rank wrote it, and what it was called there."""

    rank: int
    inner: str


class Folder(Shelf):
    """The recordings of all ranks. `lse` of rank 7 is called `rank-0007/lse` here."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.readers: dict[int, Reader] = {}
        self.entries: dict[str, FolderEntry] = {}
        try:
            for rank, file in rank_files(self.path).items():
                self.readers[rank] = Reader(file)
                self._take_in(rank, list(self.readers[rank].entries.values()))
        except BaseException:
            self.close()
            raise

    @property
    def metadata(self) -> dict[str, str]:
        """What the ranks say about the recording; where they differ, the lowest rank's word."""
        merged: dict[str, str] = {}
        for reader in self.readers.values():
            merged = reader.metadata | merged
        return merged

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What could not be read, rank by rank."""
        return tuple(one for reader in self.readers.values() for one in reader.damage)

    @property
    def is_live(self) -> bool:
        """Whether any rank is still writing."""
        return any(reader.is_live for reader in self.readers.values())

    def refresh(self) -> list[FolderEntry]:
        """Look at what was appended since, and for ranks that have come; the new entries."""
        new = [
            one
            for rank, reader in self.readers.items()
            for one in self._take_in(rank, reader.refresh())
        ]
        for rank, file in rank_files(self.path).items():
            if rank not in self.readers:
                self.readers[rank] = Reader(file)
                new += self._take_in(rank, list(self.readers[rank].entries.values()))
        self.readers = dict(sorted(self.readers.items()))
        return new

    def array(self, which: str | FolderEntry) -> npt.NDArray[Any]:
        """The tensor, as `Reader.array` gives it."""
        entry = self._entry(which)
        return self.readers[entry.rank].array(entry.inner)

    def words(self, which: str | FolderEntry) -> npt.NDArray[Any]:
        """The tensor, as `Reader.words` gives it."""
        entry = self._entry(which)
        return self.readers[entry.rank].words(entry.inner)

    def _entry(self, which: str | FolderEntry) -> FolderEntry:
        name = which.name if isinstance(which, FolderEntry) else which
        entry = self.entries.get(name)
        if entry is None:
            raise self._missing(name, shown(self.path))
        return entry

    def close(self) -> None:
        """Let all files go."""
        for reader in self.readers.values():
            reader.close()

    def _take_in(self, rank: int, entries: list[Entry]) -> list[FolderEntry]:
        new = []
        for one in entries:
            name = f"rank-{rank:04}/{one.name}"
            facts = MappingProxyType({**one.metadata, "rank": str(rank)})
            outer = FolderEntry(
                name, one.dtype, one.shape, facts, one.frame, one.span, rank, one.name
            )
            self.entries[name] = outer
            new.append(outer)
        return new


def open_recording(path: str | os.PathLike[str]) -> Reader | Folder:
    """A file, or a folder of one file per rank."""
    return Folder(path) if is_folder(Path(path)) else Reader(path)


class Memory(Shelf):
    """Takes what a `Writer` takes, and gives back what a `Reader` of the file would."""

    def __init__(self) -> None:
        self.entries: dict[str, Listed] = {}
        self.metadata: dict[str, str] = {}
        self.damage: tuple[Damage, ...] = ()
        self._words: dict[str, Array] = {}
        self._seen = 0
        self._open = True

    @property
    def is_live(self) -> bool:
        """Whether it is still being written: until `close()`."""
        return self._open

    def add(
        self,
        name: str,
        array: npt.ArrayLike,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor under a new name, copied. `dtype="BF16"` takes 16-bit words."""
        self._check_open()
        words, kind = as_words(array, dtype)
        if check_name(name) in self.entries:
            raise InputError(f"the name {name!r} is in the recording already; give another")
        facts = MappingProxyType(check_facts(metadata))
        kept = np.array(words)
        kept.flags.writeable = False
        self._words[name] = kept
        self.entries[name] = Listed(name, kind, kept.shape, facts)

    def add_many(self, series: Sequence[Series], metadata: Mapping[str, str] | None = None) -> None:
        """Tensors under new names, as `Writer.add_many` takes them."""
        for one, *_ in stored_order(series):
            for name, array in zip(one.names, one.parts(), strict=True):
                self.add(name, array, metadata, dtype=one.dtype)

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole recording; a later value of a key replaces an earlier one."""
        self._check_open()
        self.metadata |= check_facts(metadata)

    def array(self, which: str | Listed) -> Array:
        """The tensor, read-only; bf16 as a float32 copy."""
        name = which.name if isinstance(which, Listed) else which
        words = self.words(name)
        if self.entries[name].dtype != "BF16":
            return words
        numbers = decoded(words, "BF16")
        numbers.flags.writeable = False
        return numbers

    def words(self, which: str | Listed) -> Array:
        """The tensor as it was given, read-only; bf16 as its 16-bit words."""
        name = which.name if isinstance(which, Listed) else which
        if name not in self._words:
            raise self._missing(name, "this recording")
        return self._words[name]

    def refresh(self) -> list[Listed]:
        """The entries that are new since the last time."""
        new = list(self.entries.values())[self._seen :]
        self._seen = len(self.entries)
        return new

    def close(self) -> None:
        """Nothing more is taken; what there is stays readable."""
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise InputError("this recording is closed; make a new one")
