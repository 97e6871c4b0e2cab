"""Rows that arrive in pieces, gathered into bins and written out piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.recorder.plan import Plan
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


def grown(array: _Array, *shape: int) -> _Array:
    """The array with each axis at least as long as told, zeros behind."""
    if all(have >= want for have, want in zip(array.shape, shape, strict=True)):
        return array
    made = np.zeros([max(h, w) for h, w in zip(array.shape, shape, strict=True)], array.dtype)
    made[tuple(slice(0, n) for n in array.shape)] = array
    return made
