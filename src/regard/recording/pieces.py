"""The pieces of a tensor, one behind the other, as the one tensor they are."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import numpy as np

from regard.errors import FileError
from regard.recording.contents import split_name
from regard.recording.store import Array, Listed, Store, decoded

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
    the rest. Of pieces with one start the longest counts.
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
        return cls(store, origin, stop, bin, *found, inner=inner, most=most)

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
        """(bins, …) of one head, decoded: all, or up to a row."""
        last = self.stop if stop is None else min(stop, self.stop)
        spans = enumerate(zip(self.starts, self.ends(), strict=True))
        parts = [
            self._decoded(at, head, 0, -(-(min(end, last) - start) // self.bin))
            for at, (start, end) in spans
            if start < last
        ]
        return self._joined(parts)

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
