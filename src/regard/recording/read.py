"""Reading a recording: everything is listed at once, data is mapped and checked when asked for."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from regard.errors import FileError, InputError
from regard.recording.catalogue import Catalogue, Damage, Found
from regard.recording.document import DTYPES
from regard.recording.layout import INDX, META, TENS, Frame
from regard.recording.source import Source
from regard.recording.store import Shelf, decoded


@dataclass(frozen=True)
class Entry:
    """One tensor of a recording, known without its data."""

    name: str
    dtype: str  # as SPEC.md names it; BF16 is read as float32
    shape: tuple[int, ...]
    metadata: Mapping[str, str]
    frame: Frame

    @property
    def nbytes(self) -> int:
        """Bytes of data in the file."""
        return self.frame.length - self.frame.head_length


class Reader(Shelf):
    """An open recording. A damaged or unfinished tail is left out, and `damage` says so."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._source = Source(self.path)
        self._catalogue = Catalogue(self._source)
        self._map: mmap.mmap | None = None
        self._checked: set[int] = set()
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
        return raw.view(DTYPES[entry.dtype]).reshape(entry.shape)

    def close(self) -> None:
        """Let the file go; arrays that were handed out stay valid."""
        self._map = None
        self._source.close()

    def _take_in(self) -> None:
        """Entries and metadata of the frames that are new."""
        for found in self._catalogue.frames[self._listed :]:
            if found.frame.kind == TENS:
                entry = _entry_of(found)
                self.entries[entry.name] = entry
            elif found.frame.kind == META:
                self.metadata |= found.document.metadata
        self._listed = len(self._catalogue.frames)

    def _entry(self, which: str | Entry) -> Entry:
        entry = self.entries.get(which.name if isinstance(which, Entry) else which)
        if entry is None or (isinstance(which, Entry) and which != entry):
            name = which.name if isinstance(which, Entry) else which
            some = ", ".join(map(repr, list(self.entries)[:5])) or "no tensor at all"
            raise InputError(f"{self._source.name} holds no {name!r}; it holds {some}")
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
        if entry.dtype == "BOOL" and raw.size and raw.max() > 1:
            raise FileError(f"{self._source.name}: {entry.name!r} has values that are not BOOL")
        self._checked.add(frame.offset)


def _entry_of(found: Found) -> Entry:
    (one,) = found.document.tensors
    facts = MappingProxyType(found.document.metadata)
    return Entry(one.name, one.dtype, one.shape, facts, found.frame)
