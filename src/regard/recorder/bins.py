"""Rows that arrive in pieces, gathered into bins and written out piece by piece."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gathered", "binned", "grown"]

_Array = NDArray[Any]
_How = Literal["mean", "max", "sum", "every"]


class Gathered:
    """Pieces along axis 1 of (H, n, …). `full` pieces come out in whole bins, the rest at last.

    how   "mean" or "max" of a bin, or "every": the first of each bin
    """

    def __init__(self, size: int = 1, how: _How = "mean") -> None:
        self.size, self._how = size, how
        self._parts: list[_Array] = []
        self._held = 0
        self.taken = 0  # tokens that have come out

    def put(self, part: _Array) -> None:
        """More tokens."""
        self._parts.append(part)
        self._held += part.shape[1]

    @property
    def held(self) -> int:
        """Tokens waiting."""
        return self._held

    def take(self, last: bool = False) -> tuple[int, _Array] | None:
        """(first token, bins) of all whole bins held; at last, of a ragged one as well."""
        count = self._held if last else self._held // self.size * self.size
        if count == 0:
            return None
        whole = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts, axis=1)
        self._parts = [] if count == self._held else [whole[:, count:]]
        self._held -= count
        start, self.taken = self.taken, self.taken + count
        return start, binned(whole[:, :count], self.size, self._how)


def binned(array: _Array, size: int, how: _How) -> _Array:
    """(H, n, …) → (H, ⌈n/size⌉, …)."""
    if size == 1:
        return array
    if how == "every":
        return array[:, ::size]
    starts = np.arange(0, array.shape[1], size)
    if how == "max":
        return np.maximum.reduceat(array, starts, axis=1)
    sums = np.add.reduceat(array, starts, axis=1, dtype=np.float64)
    if how == "mean":
        sums /= np.diff(np.append(starts, array.shape[1]))[:, None].reshape(
            -1, *[1] * (array.ndim - 2)
        )
    return sums.astype(array.dtype)


def grown(array: _Array, *shape: int) -> _Array:
    """The array with each axis at least as long as told, zeros behind."""
    if all(have >= want for have, want in zip(array.shape, shape, strict=True)):
        return array
    made = np.zeros([max(h, w) for h, w in zip(array.shape, shape, strict=True)], array.dtype)
    made[tuple(slice(0, n) for n in array.shape)] = array
    return made
