"""Weights pooled into the pixels of one tile, as multiples of uniform; and their codes."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour import TIMES_UNIFORM

__all__ = ["HIDDEN", "TILE", "Codes", "How", "Pixels", "encode_times"]

TILE: Final = 256  # pixels a side
HIDDEN: Final = 0  # the code of what no recorded row may see, and of what lies beyond the matrix
_CODES: Final = 254  # steps from the first code of the scale, 1, to the last, 255

How: TypeAlias = Literal["mean", "max"]
_Array: TypeAlias = NDArray[Any]


class Codes(NamedTuple):
    """What is drawn."""

    codes: NDArray[np.uint8]  # (R, C): 0 hidden, 1 … 255 along TIMES_UNIFORM
    nan: int  # pixels that are no number, which are drawn as hidden; in all of a stored map


def encode_times(times: _Array, hidden: _Array) -> Codes:
    """(R, C) multiples of uniform as codes."""
    broken = np.isnan(times) & ~hidden
    shares = TIMES_UNIFORM.shares(np.where(hidden | broken, 0.0, times))
    codes = (np.rint(shares * _CODES) + 1).astype(np.uint8)
    codes[hidden | broken] = HIDDEN
    return Codes(codes, int(np.count_nonzero(broken)))


class Pixels:
    """TILE × TILE pixels of `level` × `level` tokens, from row `top` and key `left` on.

    mean   Σ p ÷ Σ 1/visible over the cells of a pixel that may be seen: 1 where all look alike
    max    the largest p × visible
    """

    def __init__(self, level: int, top: int, left: int, how: How) -> None:
        self.level, self.top, self.left, self.how = level, top, left, how
        self._found = np.zeros((TILE, TILE))  # Σ p, or the largest p × visible
        self._even = np.zeros((TILE, TILE))  # Σ 1/visible: 0 where nothing may be seen

    def fold(self, rows: _Array, start: int, cells: tuple[_Array, _Array], visible: _Array) -> None:
        """Some following rows at keys from `start` on: their scores and weights, (R, W) each, and
        how many keys each row may see."""
        scores, weights = cells
        down, tall = self._starts(int(rows[0]) - self.top, rows.size)
        across, wide = self._starts(start - self.left, scores.shape[1])
        self._even[tall, wide] += self._share(scores, visible, down, across)
        view = self._found[tall, wide]
        if self.how == "mean":
            view += self._pool(np.add, weights, down, across)
        else:
            times = weights * visible[:, None].astype(weights.dtype)
            np.maximum(view, self._pool(np.maximum, times, down, across), out=view)

    def codes(self) -> Codes:
        """What was folded."""
        hidden = self._even == 0
        if self.how == "mean":
            return encode_times(self._found / np.where(hidden, 1.0, self._even), hidden)
        return encode_times(self._found, hidden)

    def _share(self, scores: _Array, visible: _Array, down: _Array, across: _Array) -> _Array:
        each = (1.0 / np.maximum(visible, 1)).astype(scores.dtype)
        # a NaN is no smaller than anything: rows that hold one are looked at cell by cell
        if scores.min() > -np.inf:
            widths = np.diff(np.append(across, scores.shape[1]))
            whole: _Array = np.add.reduceat(each, down)[:, None] * widths
            return whole
        return self._pool(np.add, (scores != -np.inf) * each[:, None], down, across)

    def _pool(self, reduce: np.ufunc, cells: _Array, down: _Array, across: _Array) -> _Array:
        if self.level == 1:
            return cells
        found: _Array = reduce.reduceat(reduce.reduceat(cells, down, axis=0), across, axis=1)
        return found

    def _starts(self, first: int, count: int) -> tuple[_Array, slice]:
        """Where pixels start among `count` tokens from `first` on, and which pixels they are."""
        pixels = slice(first // self.level, (first + count - 1) // self.level + 1)
        starts = np.arange(pixels.start, pixels.stop) * self.level - first
        return np.maximum(starts, 0), pixels
