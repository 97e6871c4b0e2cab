"""Rows that arrive in pieces, gathered into bins; and mass by distance, in bins that grow."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.recorder.plan import EXACT_DISTANCES, Plan
from regard.recording.measures import KINDS

_Array = NDArray[Any]
_How = Literal["sum", "max", "min", "every"]
_TOGETHER = {"sum": np.add, "max": np.maximum, "min": np.minimum}
_Any = TypeVar("_Any")


class Gathered:
    """Pieces along axis 1 of (H, n, …). They come out in whole bins, the rest at last.

    size  a power of two
    how   "sum", "max" or "min" of a bin, or "every": the first of each bin
    """

    def __init__(self, size: int = 1, how: _How = "sum") -> None:
        self.size, self._how = size, how
        self._bins: list[_Array] = []
        self._loose: list[_Array] = []  # behind the bins, tokens that fill none yet
        self._waiting = 0  # tokens among the loose
        self.held = 0  # tokens in all
        self.taken = 0  # tokens that have come out

    def put(self, loose: _Array | None = None, bins: _Array | None = None) -> None:
        """More tokens. Of those that begin a bin, the whole bins may be made already."""
        if bins is not None:
            if self._waiting % self.size:
                raise ValueError(f"whole bins behind {self._waiting} tokens that fill none")
            self._fold(self._waiting)
            self._bins.append(bins)
            self.held += bins.shape[1] * self.size
        if loose is not None:
            self._loose.append(loose)
            self._waiting += loose.shape[1]
            self.held += loose.shape[1]

    def take(self, last: bool = False) -> tuple[int, _Array] | None:
        """(first token, bins) of all whole bins held; at last, of a ragged one as well."""
        left = 0 if last else self._waiting % self.size
        self._fold(self._waiting - left)
        found, self._bins = self._bins, []
        start = self.taken
        self.taken, self.held = start + self.held - left, left
        return (start, _joined(found)) if found else None

    def _fold(self, count: int) -> None:
        """The first so many of the loose become bins."""
        if count:
            loose = _joined(self._loose)
            self._bins.append(binned(loose[:, :count], self.size, self._how))
            self._waiting -= count
            self._loose = [loose[:, count:]] if self._waiting else []


def _joined(parts: list[_Array]) -> _Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def binned(array: _Array, size: int, how: _How) -> _Array:
    """(H, n, …) → (H, ⌈n/size⌉, …)."""
    if size == 1:
        return array
    if how == "every":  # a copy: what is left out need not be kept
        return np.ascontiguousarray(array[:, ::size])
    together = _TOGETHER[how]
    numbers = array.astype(np.float64) if how == "sum" else array
    count = array.shape[1]
    ragged = count % size
    made = folded(numbers[:, : count - ragged], size, together)
    if ragged:
        last = together.reduce(numbers[:, count - ragged :], axis=1, keepdims=True)
        made = np.concatenate([made, last], axis=1)
    return made.astype(array.dtype, copy=False)


def folded(tokens: _Any, size: int, together: Callable[[Any, Any], Any]) -> _Any:
    """(H, n, …) → (H, n/size, …), of numpy or torch: each `size` tokens become one. Halving again
    and again is many times faster than a reduction over a short axis."""
    some: Any = tokens
    for _ in range(size.bit_length() - 1):
        some = together(some[:, ::2], some[:, 1::2])
    found: _Any = some
    return found


def grain(name: str, plan: Plan) -> tuple[int, _How]:
    """How many rows of what is measured stand in one bin, and how they become one."""
    if name in ("top_weights", "top_keys"):
        return plan.top_every, "every"
    is_binned = name not in KINDS or KINDS[name].is_binned
    how: Any = plan.join(name)
    return plan.row_bin if is_binned else 1, how


class Overlay:
    """Sums of arrays (H, …) that are laid over each other, each from a place of its own on.

    One that lies at the front and stays alone is taken as it is; with others, each axis has room to
    grow, so that rows which come one by one are not copied with each of them.
    """

    def __init__(self, *shape: int, dtype: type[np.floating[Any]] = np.float64) -> None:
        self._shape = shape
        self._sums: _Array = np.zeros(shape, dtype)
        self._is_lent = False  # to us, by whoever gave it

    def add(self, more: _Array, *starts: int) -> None:
        """(H, …), from (0, *starts) on."""
        ends = [len(more), *(at + n for at, n in zip(starts, more.shape[1:], strict=True))]
        shape = tuple(map(max, self._shape, ends))
        if not self._sums.size and not any(starts) and shape == more.shape:
            self._sums, self._is_lent = more.astype(self._sums.dtype, copy=False), True
        else:
            self._make_room(shape)
            self._sums[(slice(None), *map(slice, starts, ends[1:]))] += more
        self._shape = shape

    def _make_room(self, shape: tuple[int, ...]) -> None:
        have = self._sums.shape
        if any(map(int.__lt__, have, shape)):
            wanted = [n if n <= m else max(n, m + m // 4) for n, m in zip(shape, have, strict=True)]
            self._sums = grown(self._sums, *wanted)
        elif self._is_lent:
            self._sums = self._sums.copy()
        self._is_lent = False

    def total(self, *shape: int) -> _Array:
        """All that was added; where a shape is given, at least of that, zeros behind."""
        reached = self._sums[tuple(map(slice, self._shape))]
        return grown(reached, *shape) if shape else reached


def grown(array: _Array, *shape: int) -> _Array:
    """The array with each axis at least as long as told, zeros behind."""
    if all(have >= want for have, want in zip(array.shape, shape, strict=True)):
        return array
    made = np.zeros([max(h, w) for h, w in zip(array.shape, shape, strict=True)], array.dtype)
    made[tuple(slice(0, n) for n in array.shape)] = array
    return made


# ── the offset profile ─────────────────────────────────────────────────────────────────────────


class Profile:
    """Sums by distance d = query position − key, d ≥ 0 and d < 0 kept apart so that both grow."""

    def __init__(self, heads: int, per_doubling: int) -> None:
        self._edges = _edges(per_doubling) if per_doubling else None
        self._behind = Overlay(heads, 0)  # bins of d = 0, 1, 2 …
        self._ahead = Overlay(heads, 0)  # bins of −d = 1, 2, 3 …

    def add(self, sums: _Array, shift: int) -> None:
        """(H, n) diagonals in the order of j − i; entry e has distance shift − e."""
        count = sums.shape[1]
        split = min(max(shift + 1, 0), count)  # entries before it have d ≥ 0
        behind, ahead = sums[:, :split][:, ::-1], sums[:, split:]
        self._add_to(self._behind, behind, shift - split + 1)
        self._add_to(self._ahead, ahead, split - shift - 1)

    def _add_to(self, bins: Overlay, sums: _Array, first: int) -> None:
        """The sums at the distances first, first + 1 …"""
        count, edges = sums.shape[1], self._edges
        if count and edges is not None:
            low, high = np.searchsorted(edges, [first, first + count - 1], side="right")
            starts = np.maximum(edges[low - 1 : high] - first, 0)
            sums, first = np.add.reduceat(sums, starts, axis=1), int(low) - 1
        if count:
            bins.add(sums, first)

    def finish(self) -> tuple[_Array, _Array]:
        """(H, bins) and the edges of the bins: bin b holds edges[b] … edges[b+1] − 1."""
        back, forth = self._behind.total(), self._ahead.total()
        ahead = np.trim_zeros(forth.any(axis=0).astype(int), "b").size
        ahead = max(ahead, min(EXACT_DISTANCES, forth.shape[1]))
        behind = back.shape[1]
        edges = self._edges if self._edges is not None else np.arange(max(ahead, behind) + 1)
        # bin b of `ahead` holds 1 + edges[b] … edges[b+1] tokens ahead: −edges[b+1] … −1 − edges[b]
        left = -edges[: ahead + 1][::-1]
        right = edges[1 : behind + 1]
        profile = np.concatenate([forth[:, :ahead][:, ::-1], back], axis=1)
        return profile.astype(np.float32), np.concatenate([left, right]).astype(np.int32)


@lru_cache(maxsize=8)
def _edges(per_doubling: int) -> _Array:
    """0, 1, 2 … EXACT_DISTANCES, then so many bins a doubling, up to 2³⁰."""
    octaves = 30 - (EXACT_DISTANCES.bit_length() - 1)
    steps = np.arange(1, octaves * per_doubling + 1) / per_doubling
    beyond = np.unique(np.round(EXACT_DISTANCES * 2.0**steps)).astype(np.int64)
    near = np.arange(EXACT_DISTANCES + 1)
    return np.concatenate([near, beyond[beyond > EXACT_DISTANCES]])
