"""What a head's rows may see, in cells: so that a map can say "times uniform", and show what is
masked as masked rather than as nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.mask.spans import spans_of
from regard.recording.regions import areas
from regard.recording.replay import Part
from regard.recording.sight import Sight

__all__ = ["seen_cells", "uniform_cells"]

_Array: TypeAlias = NDArray[Any]

_AT_ONCE: Final = 1024  # rows
_MOST: Final = 2**27  # cells looked at one by one; beyond it every nth row stands for n


def uniform_cells(sight: Sight, cell: int) -> NDArray[np.float64]:
    """(⌈queries/cell⌉, ⌈keys/cell⌉): the mean weight in each cell if every row looked at all the
    keys it may see alike. 0 where none may be seen, or no row was recorded."""
    shape = sight.held.place.queries, sight.held.place.keys
    sizes = [-(-n // cell) for n in shape]
    found = np.zeros(sizes)
    starts = np.arange(0, shape[1], cell)
    for part in sight.parts:
        for rows, counts, stands_for in _counted(part, starts, shape[1]):
            visible = np.maximum(counts.sum(1, keepdims=True), 1)
            np.add.at(found, rows // cell, stands_for * counts / visible)
    return found / np.maximum(areas(shape, cell), 1)


def seen_cells(sight: Sight, rows: _Array, keys: _Array) -> NDArray[np.bool_]:
    """(R, C): whether each of the rows may see each of the keys."""
    found = np.zeros((rows.size, keys.size), np.bool_)
    for part in sight.parts:
        down = np.flatnonzero((rows >= part.rows.start) & (rows < part.rows.stop))
        across = np.flatnonzero((keys >= part.keys.start) & (keys < part.keys.stop))
        if down.size and across.size:
            found[np.ix_(down, across)] = _allowed(part, rows[down], keys[across])
    return found


def _counted(part: Part, starts: _Array, keys: int) -> Iterator[tuple[_Array, _Array, int]]:
    """Rows, how many keys of each cell (R, C) they may see, and how many rows each stands for."""
    spans = _spans(part)
    step = 1 if spans is not None else max(len(part.rows) * len(part.keys) // _MOST, 1)
    every = np.arange(part.rows.start, part.rows.stop, step)
    for at in range(0, every.size, _AT_ONCE):
        rows = every[at : at + _AT_ONCE]
        if spans is not None:
            low, high = (side[rows - part.first_row, None] + part.keys.start for side in spans)
            ends = np.append(starts[1:], keys)
            yield rows, np.clip(np.minimum(high, ends) - np.maximum(low, starts), 0, None), step
        else:
            seen = np.zeros((rows.size, keys), np.int64)
            seen[:, part.keys.start : part.keys.stop] = _allowed(part, rows, np.array(part.keys))
            yield rows, np.add.reduceat(seen, starts, axis=1), step


def _spans(part: Part) -> tuple[_Array, _Array] | None:
    """(queries of the segment,): where the keys each sees begin and end; None where there are
    gaps between them."""
    count, keys, rules = part.rules.extent.queries, len(part.keys), part.rules
    if rules.hides_by_bias:
        return None
    if rules.mask is None:
        return np.zeros(count, np.int64), np.full(count, keys)
    spans, rest = spans_of(rules.mask, rules.extent)
    if spans is None or rest is not None:
        return None
    low, high = (np.broadcast_to(side, (count,)).clip(0, keys) for side in spans)
    return low, high


def _allowed(part: Part, rows: _Array, keys: _Array) -> NDArray[np.bool_]:
    i, j, rules = rows - part.first_row, keys - part.keys.start, part.rules
    seen = np.ones((1, i.size, j.size), np.bool_)
    if rules.mask is not None:
        seen &= rules.mask.allows(i, j, rules.extent)
    if rules.hides_by_bias and rules.score.bias is not None:
        seen &= rules.score.bias.tile(i, j, rules.extent) != -np.inf
    return seen[0]
