"""A folder of `rank-0007.regard` files, opened as one recording."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from regard.errors import FileError, InputError
from regard.files import is_folder, shown
from regard.recording.catalogue import Damage
from regard.recording.read import Entry, Reader
from regard.recording.store import Shelf

_RANK_FILE = re.compile(r"rank-([0-9]{1,9})\.regard")


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
            some = ", ".join(map(repr, list(self.entries)[:5])) or "no tensor at all"
            raise InputError(f"{shown(self.path)} holds no {name!r}; it holds {some}")
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
            outer = FolderEntry(name, one.dtype, one.shape, facts, one.frame, rank, one.name)
            self.entries[name] = outer
            new.append(outer)
        return new


def rank_files(path: Path) -> dict[int, Path]:
    """The folder's recordings by rank, in order."""
    found: dict[int, Path] = {}
    try:
        for file in sorted(path.iterdir()):
            match = _RANK_FILE.fullmatch(file.name)
            if match and int(match[1]) in found:
                raise FileError(f"{shown(path)}: two files of rank {int(match[1])}; remove one")
            if match:
                found[int(match[1])] = file
    except FileError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{shown(path)}: cannot be opened ({reason})") from None
    if not found:
        raise FileError(f"{shown(path)}: a folder without rank-0000.regard; give a recording")
    return dict(sorted(found.items()))


def open_recording(path: str | os.PathLike[str]) -> Reader | Folder:
    """A file, or a folder of one file per rank."""
    return Folder(path) if is_folder(Path(path)) else Reader(path)
