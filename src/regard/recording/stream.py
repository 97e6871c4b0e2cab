"""Streams of tokens: ids, texts and flags, put together from their pieces."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import FileError
from regard.recording.contents import DELIMITER
from regard.recording.pieces import Sorted
from regard.recording.store import Array, Listed, Store


class Stream:
    """A sequence of tokens; what is missing at the end of an unfinished recording is left out."""

    def __init__(self, store: Store, pieces: Sorted, prompt: int, name: str) -> None:
        self.name = name
        self._store = store
        self._pieces = pieces.get((prompt, name), {})

    def __len__(self) -> int:
        return max(self.ids.size, len(self.tokens))

    @cached_property
    def ids(self) -> Array:
        """(tokens,) int64; empty where they were not recorded."""
        return self._numbers("ids").astype(np.int64)

    @cached_property
    def first_seen(self) -> Array:
        """(tokens,) int64: where each token stood first."""
        _, first, name = np.unique(self.ids, return_index=True, return_inverse=True)
        found: Array = first[name]
        return found

    @cached_property
    def flags(self) -> Array:
        """(tokens,) uint8: DELIMITER, SPECIAL; 0 where nothing is said."""
        found = self._numbers("flags").astype(np.uint8)[: len(self)]
        return np.pad(found, (0, len(self) - found.size))

    @property
    def delimiters(self) -> Array:
        """(tokens,) booleans: punctuation and line breaks."""
        return (self.flags & DELIMITER) != 0

    @cached_property
    def tokens(self) -> list[str]:
        """The texts; empty where they were not recorded."""
        found: list[str] = []
        for start, entry in self._in_order("text"):
            if start != len(found):
                break
            found += _texts(entry.name, self._store.array(entry.name))
        return found

    def _in_order(self, what: str) -> list[tuple[int, Listed]]:
        pieces = self._pieces.get(what, {})
        return [(start, pieces[start][0]) for start in sorted(s for s in pieces if s is not None)]

    def _numbers(self, what: str) -> Array:
        found: list[Array] = []
        reached = 0
        for start, entry in self._in_order(what):
            if len(entry.shape) != 1 or entry.dtype[0] not in "IU":
                raise FileError(f"{entry.name!r}: {entry.dtype} {entry.shape} are no {what}")
            if start != reached:
                break
            found.append(self._store.array(entry.name))
            reached += entry.shape[0]
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def _texts(name: str, raw: Array) -> list[str]:
    try:
        value: Any = json.loads(raw.tobytes().decode("utf-8"))
    except (ValueError, RecursionError):
        raise FileError(f"{name!r}: the texts of tokens cannot be read") from None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise FileError(f"{name!r}: the texts of tokens are no list of texts")
    return value
