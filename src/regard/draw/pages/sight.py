"""What a head's rows may see, in cells: so that a map can say "times uniform", and show what is
masked as masked rather than as nothing."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.mask.spans import spans_of
from regard.recording.layer import areas
from regard.recording.replay import Part
from regard.recording.visibility import Sight

_Array: TypeAlias = NDArray[Any]

_AT_ONCE: Final = 1024  # rows
_MOST: Final = 2**27  # cells looked at one by one; beyond it every nth row stands for n


def uniform_cells(sight: Sight, cell: int) -> NDArray[np.float64]:
    """(⌈queries/cell⌉, ⌈keys/cell⌉): the mean weight in each cell if every row looked at all the
    keys it may see alike. 0 where none may be seen, or no row was recorded."""
    shape = sight.held.place.queries, sight.held.place.keys
    sizes = [-(-n // cell) for n in shape]
    found = np.zeros(sizes)
    for part in sight.parts:
        spans = _spans(part)
        if spans is None:
            _add_counted(found, part, shape[1], cell)
        else:
            _add_spans(found, part, spans, shape[1], cell)
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


def _add_counted(found: _Array, part: Part, keys: int, cell: int) -> None:
    """Cell by cell, where the keys that a row sees have gaps between them."""
    starts = np.arange(0, keys, cell)
    step = max(len(part.rows) * len(part.keys) // _MOST, 1)  # each row stands for so many
    every = np.arange(part.rows.start, part.rows.stop, step)
    for at in range(0, every.size, _AT_ONCE):
        rows = every[at : at + _AT_ONCE]
        seen = np.zeros((rows.size, keys), np.int64)
        seen[:, part.keys.start : part.keys.stop] = _allowed(part, rows, np.array(part.keys))
        counts = np.add.reduceat(seen, starts, axis=1)
        visible = np.maximum(counts.sum(1, keepdims=True), 1)
        np.add.at(found, rows // cell, step * counts / visible)


def _add_spans(
    found: _Array, part: Part, spans: tuple[_Array, _Array], keys: int, cell: int
) -> None:
    """Without a look at any cell: up to an edge e, the keys from `low` to `high` that weigh w each
    sum to w·max(e − low, 0) − w·max(e − high, 0); a cell is the difference of two edges."""
    rows = np.array(part.rows)
    low, high = (side[rows - part.first_row] + part.keys.start for side in spans)
    high = np.maximum(high, low)
    down, size = rows // cell, found.shape
    edges = np.minimum(np.arange(size[1] + 1) * cell, keys)

    def up_to(at: _Array, weight: _Array) -> _Array:  # (row cells, edges): Σ w·max(e − at, 0)
        slot = down * edges.size + at // cell
        sums = [
            np.bincount(slot, each, size[0] * edges.size).reshape(size[0], edges.size)
            for each in (weight, weight * at)
        ]
        before, moments = (np.cumsum(one, axis=1) - one for one in sums)
        return edges * before - moments

    def spread(weight: _Array) -> _Array:
        return np.diff(up_to(low, weight) - up_to(high, weight), axis=1)

    counts = spread(np.ones(rows.size))  # whole numbers: exact, so that nothing seen is 0
    found += np.where(counts > 0, spread(1 / np.maximum(high - low, 1)), 0.0)


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
