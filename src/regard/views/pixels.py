"""Weights pooled into the pixels of one tile, beside what even rows would give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.recording.collect import pool
from regard.views.schema import How
from regard.views.uniform import Codes, codes_of, encode_times

TILE: Final = 256  # pixels a side
_Array: TypeAlias = NDArray[Any]


class Sums(NamedTuple):
    """What the pixels of a tile hold; those of four tiles make one of twice the tokens a pixel."""

    found: NDArray[np.float32]  # (TILE, TILE): Σ p, or the largest p × visible
    even: NDArray[np.float32]  # (TILE, TILE): Σ 1/visible, 0 where nothing may be seen

    @property
    def nbytes(self) -> int:
        """What it takes; nothing where nothing may be seen, which all such tiles share."""
        return 0 if self is _NOTHING else self.found.nbytes + self.even.nbytes

    def codes(self, how: How) -> Codes:
        """What is drawn of it."""
        if how == "mean":
            return codes_of(self.found, self.even)
        return encode_times(self.found, self.even == 0)


_NOTHING: Final = Sums(np.zeros((TILE, TILE), np.float32), np.zeros((TILE, TILE), np.float32))


def join(quarters: Mapping[tuple[int, int], Sums], how: How) -> Sums:
    """Tiles by where they lie, (0, 0) to (1, 1), as one of half as many pixels a token; those that
    are not there lie beyond the matrix."""
    if all(one is _NOTHING for one in quarters.values()):
        return _NOTHING
    whole, half = Sums(*(np.zeros((TILE, TILE), np.float32) for _ in Sums._fields)), TILE // 2
    for (y, x), one in quarters.items():
        part = np.s_[y * half : (y + 1) * half, x * half : (x + 1) * half]
        whole.found[part] = pool(np.add if how == "mean" else np.maximum, one.found, 2, (0, 0))
        whole.even[part] = pool(np.add, one.even, 2, (0, 0))
    return whole


class Pixels:
    """TILE × TILE pixels of `level` × `level` tokens, from row `top` and key `left` on.

    mean   Σ p ÷ Σ 1/visible over the cells of a pixel that may be seen: 1 where all look alike
    max    the largest p × visible
    """

    def __init__(self, level: int, top: int, left: int, how: How) -> None:
        self.level, self.top, self.left, self.how = level, top, left, how
        self._found, self._even = np.zeros((TILE, TILE)), np.zeros((TILE, TILE))

    def fold(self, rows: _Array, start: int, cells: tuple[_Array, _Array], visible: _Array) -> None:
        """Some following rows at keys from `start` on: their scores and weights, (R, W) each, and
        how many keys each row may see."""
        scores, weights = cells
        first = int(rows[0]) - self.top, start - self.left
        share = self._share(scores, visible, first)
        y, x = (at // self.level for at in first)
        part = np.s_[y : y + share.shape[0], x : x + share.shape[1]]
        self._even[part] += share
        if self.how == "mean":
            self._found[part] += pool(np.add, weights, self.level, first)
        else:
            times = weights * visible[:, None].astype(weights.dtype)
            largest = pool(np.maximum, times, self.level, first)
            np.maximum(self._found[part], largest, out=self._found[part])

    def sums(self) -> Sums:
        """What was folded."""
        if not self._even.any():
            return _NOTHING
        return Sums(self._found.astype(np.float32), self._even.astype(np.float32))

    def codes(self) -> Codes:
        """What is drawn of it."""
        return self.sums().codes(self.how)

    def _share(self, scores: _Array, visible: _Array, first: tuple[int, int]) -> _Array:
        each = (1.0 / np.maximum(visible, 1)).astype(scores.dtype)[:, None]
        # a NaN is no smaller than anything: rows that hold one are looked at cell by cell
        if scores.min() > -np.inf:
            down = pool(np.add, each, self.level, (first[0], 0))
            ones = np.ones((1, scores.shape[1]), scores.dtype)
            widths = pool(np.add, ones, self.level, (0, first[1]))
            return down * widths
        return pool(np.add, (scores != -np.inf) * each, self.level, first)
