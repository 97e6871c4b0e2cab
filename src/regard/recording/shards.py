"""A folder of `shard-00007.regard` files, each with some of many documents, as one recording.

A file is opened when one of its documents is asked for, and only the last few stay open: thousands
of documents do not fit into memory at once.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, overload

from regard.errors import FileError, InputError
from regard.files import is_folder, open_file, shown
from regard.recording.format.frames import Damage
from regard.recording.merged import Merged, merge_prompts, read_merged
from regard.recording.notes import KNOCKED_NOTE, read_notes
from regard.recording.pieces import sort_pieces
from regard.recording.prompt import PromptView
from regard.recording.schema import PLACE_NOTE, PROMPT_NOTE
from regard.recording.stores import Array, Entry, Reader, Shelf

MANIFEST: Final = "manifest.json"  # what a run was, beside its files
SHARD_NOTE: Final = "shard"  # which documents a file holds, and how they were recorded
_SHARD_FILE: Final = re.compile(r"shard-[0-9a-z]{1,64}\.regard")
_OPEN: Final = 4  # files that stay open


def is_shards(path: Path) -> bool:
    """Whether it is a folder of such files."""
    return is_folder(path) and bool(shard_files(path))


def shard_files(path: Path) -> list[Path]:
    """The folder's files of documents, in order; whatever else is there is passed over."""
    try:
        return sorted(one for one in path.iterdir() if _SHARD_FILE.fullmatch(one.name))
    except OSError as error:
        raise FileError(f"{shown(path)}: cannot be opened ({error.strerror})") from None


class _File:
    """A file that is open. Its documents are listed when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.reader = path, Reader(path)
        self._prompts: list[PromptView] | None = None
        self._before = 0

    def prompts(self, before: int | None = None) -> list[PromptView]:
        """Its documents; numbered as those behind so many others, where that is known."""
        if self._prompts is None or before not in (None, self._before):
            self._before = before or 0
            notes, pieces = read_notes(self.reader, shown(self.path)), sort_pieces(self.reader)
            self._prompts = [
                PromptView(self.reader, number, notes, pieces, self._before)
                for number in notes.prompts
            ]
        return self._prompts


class Shards(Shelf):
    """The files of a folder. `P0/L5/lse/0` of shard-00007.regard is `shard-00007/P0/L5/lse/0`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.files: list[Path] = []
        self.damage: tuple[Damage, ...] = ()  # of the files that were opened so far
        self.is_live = False  # a file appears when it is whole
        self._opened: dict[Path, _File] = {}
        self._counts: dict[Path, int] = {}
        self._facts: dict[str, str] = {}
        self.refresh()
        if not self.files:
            raise FileError(f"{shown(self.path)}: a folder without shard-….regard files")

    # ── as a store ───────────────────────────────────────────────────────────────────────────

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the first file says of the whole, and how many files there are."""
        if not self._facts:
            about = (PROMPT_NOTE, PLACE_NOTE, KNOCKED_NOTE)
            notes = self._open(self.files[0]).reader.metadata
            self._facts = {key: text for key, text in notes.items() if not key.startswith(about)}
        return MappingProxyType(self._facts | {"files": str(len(self.files))})

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every tensor of every file."""
        found: dict[str, Entry] = {}
        for file in self.files:
            for entry in self._open(file).reader.entries.values():
                name = f"{file.stem}/{entry.name}"
                found[name] = replace(entry, name=name)
        return found

    def array(self, which: str) -> Array:
        """The tensor, as `Reader.array` gives it."""
        reader, name = self._named(which)
        return reader.array(name)

    def words(self, which: str) -> Array:
        """The tensor, as `Reader.words` gives it."""
        reader, name = self._named(which)
        return reader.words(name)

    def refresh(self) -> list[Entry]:
        """Look for files that have come; their number is told by `metadata`."""
        self.files = shard_files(self.path)
        self._counts = _told_counts(self.path) | self._counts
        return []

    def close(self) -> None:
        """Let all files go."""
        for one in self._opened.values():
            one.reader.close()
        self._opened = {}

    def _named(self, which: str) -> tuple[Reader, str]:
        stem, _, name = which.partition("/")
        for file in self.files:
            if file.stem == stem:
                return self._open(file).reader, name
        raise InputError(f"{shown(self.path)} holds no {which!r}; it has {len(self.files)} files")

    # ── documents ────────────────────────────────────────────────────────────────────────────

    def documents(self) -> Documents:
        """All documents, in the order of the files."""
        return Documents(self, [self._count(file) for file in self.files])

    def prompts_of(self, number: int, before: int) -> list[PromptView]:
        """The documents of one file; so many come before them."""
        file = self.files[number]
        found = self._open(file).prompts(before)
        if len(found) != self._counts[file]:
            raise FileError(
                f"{shown(file)}: holds {len(found)} documents, and {MANIFEST} says "
                f"{self._counts[file]}; record it again"
            )
        return found

    def merged(self) -> Merged:
        """The statistics of all documents of all files."""
        total, seen = Merged(), dict[str, Path]()
        for file in self.files:
            here = self._open(file)
            for name in _names(here.reader):
                if name in seen:
                    raise FileError(
                        f"{shown(self.path)}: {name!r} is in {seen[name].name} and in {file.name}; "
                        "remove one of them"
                    )
                seen[name] = file
            total += read_merged(here.reader) or merge_prompts(here.prompts())
        return total

    def _count(self, file: Path) -> int:
        if file not in self._counts:
            self._counts[file] = len(self._open(file).prompts())
        return self._counts[file]

    def _open(self, path: Path) -> _File:
        """The file, from among the last few where it is there. Those who have it keep it alive."""
        file = self._opened.pop(path, None)
        if file is None:
            file = _File(path)
            new = [one for one in file.reader.damage if one not in self.damage]
            self.damage = (*self.damage, *new)
        self._opened[path] = file
        if len(self._opened) > _OPEN:
            del self._opened[next(iter(self._opened))]
        return file


class Documents(Sequence[PromptView]):
    """The documents of a folder, by number; each is read when it is asked for."""

    def __init__(self, shards: Shards, counts: Sequence[int]) -> None:
        self._shards = shards
        self._ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, which: int) -> PromptView: ...
    @overload
    def __getitem__(self, which: slice) -> list[PromptView]: ...
    def __getitem__(self, which: int | slice) -> PromptView | list[PromptView]:
        if isinstance(which, slice):
            return [self[n] for n in range(*which.indices(len(self)))]
        number = which + len(self) if which < 0 else which
        if not 0 <= number < len(self):
            raise IndexError(which)
        at = bisect_right(self._ends, number)
        before = self._ends[at - 1] if at else 0
        return self._shards.prompts_of(at, before)[number - before]

    def __iter__(self) -> Iterator[PromptView]:
        return (self[n] for n in range(len(self)))


def _told_counts(path: Path) -> dict[Path, int]:
    """How many documents the manifest says each file has; nothing where there is none."""
    try:
        told: Any = json.loads(_manifest(path / MANIFEST))
        counts = {path / one["file"]: int(one["documents"]) for one in told["shards"]}
        if min(counts.values(), default=0) < 0:
            raise ValueError(counts)
        return counts
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise FileError(f"{shown(path / MANIFEST)}: cannot be read; remove it") from None


def _names(reader: Reader) -> list[str]:
    """What the documents of a file are called, where somebody named them."""
    try:
        names = json.loads(reader.metadata.get(SHARD_NOTE, "{}")).get("names", [])
    except (ValueError, AttributeError, RecursionError):
        raise FileError(
            f"{shown(reader.path)}: its note {SHARD_NOTE!r} is no JSON object"
        ) from None
    return [name for name in names if isinstance(name, str)]


def _manifest(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read()
