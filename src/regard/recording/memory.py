"""A recording in memory: written like a `Writer`, read like a `Reader`, gone with the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from regard.errors import InputError
from regard.recording.catalogue import Damage
from regard.recording.store import Array, Shelf, decoded
from regard.recording.write import as_words, check_facts, check_name


@dataclass(frozen=True)
class MemoryEntry:
    """One tensor in memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    metadata: Mapping[str, str]
    nbytes: int


class Memory(Shelf):
    """Takes what a `Writer` takes, and gives back what a `Reader` of the file would."""

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}
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
        self.entries[name] = MemoryEntry(name, kind, kept.shape, facts, kept.nbytes)

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole recording; a later value of a key replaces an earlier one."""
        self._check_open()
        self.metadata |= check_facts(metadata)

    def array(self, which: str | MemoryEntry) -> Array:
        """The tensor, read-only; bf16 as a float32 copy."""
        name = which.name if isinstance(which, MemoryEntry) else which
        words = self.words(name)
        if self.entries[name].dtype != "BF16":
            return words
        numbers = decoded(words, "BF16")
        numbers.flags.writeable = False
        return numbers

    def words(self, which: str | MemoryEntry) -> Array:
        """The tensor as it was given, read-only; bf16 as its 16-bit words."""
        name = which.name if isinstance(which, MemoryEntry) else which
        if name not in self._words:
            some = ", ".join(map(repr, list(self.entries)[:5])) or "no tensor at all"
            raise InputError(f"this recording holds no {name!r}; it holds {some}")
        return self._words[name]

    def refresh(self) -> list[MemoryEntry]:
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
