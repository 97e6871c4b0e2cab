"""A head's matrix in square cells of tokens: weights, and how many times uniform they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, UnavailableError
from regard.plot.subject import Head, How, Sight

_Numbers: TypeAlias = NDArray[np.float64]

_FINEST: Final = 512  # cells a side; more are for those who ask
_AT_ONCE: Final = 2**22  # cells of the matrix that are looked at together


@dataclass(frozen=True)
class Cells:
    """Cells of `cell` × `cell` tokens, from the first recorded row on."""

    cell: int
    how: How
    first_row: int
    weights: _Numbers  # (R, C): NaN where masked
    times: _Numbers  # (R, C): as a multiple of what uniform attention would give

    @property
    def pooling(self) -> str:
        """What a cell is, in words."""
        if self.cell == 1:
            return "one token a cell"
        return f"{self.how} of {self.cell}×{self.cell} tokens a cell"


def fitting_cell(head: Head, wanted: int | None, side: int, how: How) -> int:
    """The cell that is wanted, or the fewest tokens with which at most `side` cells stand in a
    line. A map that was kept is made coarser rather than computed anew."""
    size = max(len(head.recorded), head.shape[1], 1)
    if wanted is not None:
        _check_cell(wanted, size, side)
        return wanted
    cell = -(-size // min(side, _FINEST))
    own = head.place.pool_cell
    is_kept = how == "mean" and head.has("pooled") and own > 0
    return -(-cell // own) * own if is_kept and (cell >= own or not head.exact) else cell


def make_cells(head: Head, sight: Sight, cell: int, how: How) -> Cells:
    """The map; UnavailableError where it was not kept and cannot be made, or nobody knows what
    may be seen."""
    if not sight.is_complete:
        raise UnavailableError(
            f"{head.label}: its mask is not known, so a picture cannot say what is masked; "
            "head.pooled() has the numbers"
        )
    weights = np.asarray(head.pooled(cell, how), np.float64)
    even = even_mass(head, sight, cell)
    hidden = even == 0
    if how == "mean":
        times = weights * _areas(head.shape, cell) / np.where(hidden, 1.0, even)
    else:
        times = weights * _row_lengths(head, sight, cell)[:, None]
    first, last = head.recorded.start // cell, -(-head.recorded.stop // cell)
    shown = [np.where(hidden, np.nan, one)[first:last] for one in (weights, times)]
    return Cells(cell, how, first * cell, *shown)


def even_mass(head: Head, sight: Sight, cell: int) -> _Numbers:
    """(⌈queries/cell⌉, ⌈keys/cell⌉): what each cell would hold together if every recorded row
    looked at all the keys it may see alike; 0 where none may be seen."""
    lines, columns = (-(-n // cell) for n in head.shape)
    line = np.array(head.recorded, np.int64) // cell
    found = np.zeros((lines, columns))
    if sight.cells() and head.exact:  # cheaper than asking a mask that is no interval so often
        for rows, shares in _even_rows(head, cell):
            np.add.at(found, rows // cell, shares)
        return found
    visible = np.maximum(sight.among(np.ones(head.shape[1], np.int64)), 1)
    for n in range(columns):
        marks = np.zeros(head.shape[1], np.int64)
        marks[n * cell : (n + 1) * cell] = 1
        found[:, n] = np.bincount(line, weights=sight.among(marks) / visible, minlength=lines)
    return found


def _even_rows(head: Head, cell: int) -> Iterator[tuple[NDArray[Any], _Numbers]]:
    """Some rows at a time, and what each would give to each cell (rows, C)."""
    step = max(_AT_ONCE // max(head.shape[1], 1), 1)
    starts = np.arange(0, head.shape[1], cell)
    for first in range(head.recorded.start, head.recorded.stop, step):
        rows = np.arange(first, min(first + step, head.recorded.stop))
        seen = np.asarray(head.scores[rows, :]) != -np.inf
        counts = np.add.reduceat(seen.astype(np.int64), starts, axis=1)
        yield rows, counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _check_cell(wanted: int, size: int, side: int) -> None:
    if wanted < 1:
        raise InputError(f"a cell of {wanted} tokens; give a number ≥ 1")
    if -(-size // wanted) > side:
        raise InputError(
            f"a cell of {wanted} makes {-(-size // wanted):,} cells a side, and {side} fit; give a "
            f"cell of {-(-size // side)} or more, or a larger size or dpi"
        )


def _areas(shape: tuple[int, int], cell: int) -> NDArray[Any]:
    """(R, C): how many pairs of tokens each cell holds; fewer at ragged edges."""
    sides = [np.minimum(np.arange(0, n, cell) + cell, n) - np.arange(0, n, cell) for n in shape]
    return np.outer(*sides)


def _row_lengths(head: Head, sight: Sight, cell: int) -> _Numbers:
    """(R,): how many keys the rows of each line of cells may see, on average."""
    line = np.array(head.recorded, np.int64) // cell
    lines = -(-head.shape[0] // cell)
    visible = sight.among(np.ones(head.shape[1], np.int64))
    totals = np.bincount(line, weights=visible, minlength=lines)
    return totals / np.maximum(np.bincount(line, minlength=lines), 1)
