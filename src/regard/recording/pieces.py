"""The pieces of a tensor, or of a stream of tokens, one behind the other, as the one they are."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from regard.errors import FileError
from regard.recording.schema import DELIMITER, split_name
from regard.recording.stores import Array, Listed, Store, decoded
from regard.recording.token_text import readable

_RANK: Final = re.compile(r"(rank-[0-9]{4,9}/)(.*)", re.DOTALL)

Pieces = dict[int | None, list[Listed]]  # by start; several where ranks say the same
Sorted = dict[tuple[int, str], dict[str, Pieces]]  # by prompt and place or stream, then by what


def inner_name(name: str) -> tuple[str, str]:
    """The rank's part of a name with its slash ("" outside folders), and the name it had there."""
    match = _RANK.fullmatch(name)
    return (match[1], match[2]) if match else ("", name)


def sort_pieces(store: Store) -> Sorted:
    """Every tensor of a recording of attention, by what it is and where it starts."""
    found: Sorted = {}
    for name, entry in store.entries.items():
        parts = split_name(inner_name(name)[1])
        if parts is not None:
            prompt, of, what, start = parts
            pieces = found.setdefault((prompt, of), {}).setdefault(what, {})
            pieces.setdefault(start, []).append(entry)
    return found


@dataclass(frozen=True)
class Run:
    """Pieces that follow each other from `origin` on without a gap, to `stop`.

    A piece is (heads, bins, …); each bin stands for `bin` rows (or keys), the last of a piece for
    the rest. Of pieces with one start the longest counts. Bins may hold sums: they are read as
    means all the same.
    """

    store: Store
    origin: int
    stop: int
    bin: int
    pieces: tuple[Listed, ...]
    starts: tuple[int, ...]
    _: KW_ONLY
    inner: tuple[int, ...]  # the axes behind heads and bins
    most: int | None  # whole numbers from −1 to below it; None: any number
    is_sum: bool = False  # bins hold sums
    _views: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        store: Store,
        pieces: Pieces,
        origin: int,
        limit: int,
        bin: int = 1,
        most: int | None = None,
        is_sum: bool = False,
    ) -> Run:
        """As far as they reach, at most to `limit`."""
        every = [one for entries in pieces.values() for one in entries]
        inner = every[0].shape[2:] if every else ()
        if any(one.shape[2:] != inner for one in every):
            raise FileError(f"{every[0].name!r}: its pieces have other shapes than one another")
        taken: list[Listed] = []
        starts: list[int] = []
        reached = origin
        for start in sorted(start for start in pieces if start is not None):
            piece = max(pieces[start], key=lambda one: one.shape[1])
            if starts and start <= reached - bin:
                raise FileError(f"{piece.name!r} overlaps the piece before it")
            if start > reached or start >= limit or (not starts and start != origin):
                break
            taken.append(piece)
            starts.append(start)
            reached = start + piece.shape[1] * bin
        stop = min(reached, limit)
        found = tuple(taken), tuple(starts)
        return cls(store, origin, stop, bin, *found, inner=inner, most=most, is_sum=is_sum)

    def __len__(self) -> int:
        """Rows (or keys) covered."""
        return self.stop - self.origin

    @property
    def is_binned(self) -> bool:
        """Whether a number stands for several rows."""
        return self.bin > 1

    def ends(self) -> list[int]:
        """Where each piece ends."""
        return [*self.starts[1:], self.stop] if self.starts else []

    def edges(self) -> Array:
        """(bins + 1,): bin b stands for rows edges[b] … edges[b+1] − 1."""
        spans = zip(self.starts, self.ends(), strict=True)
        firsts = [np.arange(start, end, self.bin) for start, end in spans]
        return np.concatenate([*firsts, [self.stop]]).astype(np.int64)

    def numbers(self, head: int, stop: int | None = None) -> Array:
        """(bins, …) of one head, decoded: all, or up to a row. Of sums, the means."""
        last = self.stop if stop is None else min(stop, self.stop)
        parts = []
        for at, (start, end) in enumerate(zip(self.starts, self.ends(), strict=True)):
            if start < last:
                bins = self._decoded(at, head, 0, -(-(min(end, last) - start) // self.bin))
                parts.append(self._means(at, bins) if self.is_sum and self.is_binned else bins)
        return self._joined(parts)

    def _means(self, at: int, sums: Array) -> Array:
        """The first bins of a piece, each divided by the rows it stands for."""
        counts = np.full(len(sums), self.bin, sums.dtype)
        if len(sums) == self.pieces[at].shape[1]:
            counts[-1:] = self._count(at) - (len(sums) - 1) * self.bin
        return sums / counts

    def _count(self, at: int) -> int:
        """How many rows a piece stands for: as it says, or to its end."""
        piece, said = self.pieces[at], self.pieces[at].metadata.get("tokens")
        if said is None:
            return self.ends_at(at) - self.starts[at]
        count = int(said) if re.fullmatch("[0-9]{1,15}", said) else -1
        if -(-count // self.bin) != piece.shape[1]:
            raise FileError(f"{piece.name!r}: {said!r:.20} tokens in {piece.shape[1]} bins")
        return count

    def take(self, head: int, start: int, stop: int) -> Array:
        """(stop − start, …) of one head, decoded; in the mapped file where one piece has it all."""
        first = max(bisect_right(self.starts, start) - 1, 0)
        parts = []
        for at in range(first, len(self.pieces)):
            begin, end = self.starts[at], self.ends_at(at)
            if begin >= stop:
                break
            low, high = max(start, begin) - begin, min(stop, end) - begin
            if low < high:
                parts.append(self._decoded(at, head, low, high))
        return self._joined(parts)

    def ends_at(self, at: int) -> int:
        """Where one piece ends."""
        return self.starts[at + 1] if at + 1 < len(self.starts) else self.stop

    def _decoded(self, at: int, head: int, low: int, high: int) -> Array:
        words = self._views.get(at)
        if words is None:
            words = self._views[at] = self._checked(self.pieces[at].name)
        return decoded(words[head, low:high], self.pieces[at].dtype)

    def _checked(self, name: str) -> Array:
        """A piece as it is stored."""
        words = self.store.words(name)
        if self.most is not None and words.size:
            least, largest = int(words.min()), int(words.max())
            if least < -1 or largest >= self.most:
                raise FileError(
                    f"{name!r}: numbers from {least} to {largest}; there are {self.most} keys"
                )
        return words

    def _joined(self, parts: list[Array]) -> Array:
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros((0, *self.inner), np.float32)


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
        return first[name]

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
        """The texts as they are shown (`token_text`); empty where they were not recorded."""
        found: list[str] = []
        for start, entry in self._in_order("text"):
            if start != len(found):
                break
            found += _texts(entry.name, self._store.array(entry.name))
        return readable(found)

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
