"""Who may see whom, by the masks alone: known for every head, whether or not q and k were kept.

Counted by row and by key (`Sight`), as intervals (`visible_spans`), cell by cell (`seen_cells`),
and as what even rows would give to the cells of a map (`uniform_cells`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.mask.spans import Spans, spans_of
from regard.recording.layer import Held, areas
from regard.recording.replay import Part
from regard.recording.rules import not_here
from regard.recording.schema import UNKNOWN, Segment
from regard.recording.stores import Array

_TILE: Final = (256, 4096)  # rows and keys that are looked at at once, where no interval tells
_AT_ONCE: Final = 1024  # rows
_MOST: Final = 2**27  # cells looked at one by one; beyond it every nth row stands for n


class Sight:
    """What the recorded rows of one head may see."""

    def __init__(self, held: Held, head: int) -> None:
        self.held, self.head = held, head

    @cached_property
    def parts(self) -> list[Part]:
        """The segments that recorded rows belong to, as far as their masks are known."""
        told = [n for n, one in enumerate(self.held.place.segments) if _is_told(one)]
        every = (Part.of(self.held, self.head, n) for n in told)
        return [one for one in every if one.rows]

    @property
    def is_complete(self) -> bool:
        """Whether a mask is known for every recorded row."""
        return sum(len(part.rows) for part in self.parts) == len(self.held.rows)

    def cells(self) -> int:
        """How many cells would have to be looked at one by one: none where intervals tell."""
        return sum(
            len(part.rows) * len(part.keys) for part, spans in self.spanned() if spans is None
        )

    def visible(self) -> Array:
        """(rows,) int64: how many keys each recorded row may see."""
        return self.among(np.ones(self.held.place.keys, np.int64))

    def among(self, marks: Array) -> Array:
        """(rows,): Σ marks (keys,) over the keys that each recorded row may see."""
        found = np.zeros(len(self.held.rows), marks.dtype)
        summed = np.concatenate([np.zeros(1, marks.dtype), np.cumsum(marks, dtype=marks.dtype)])
        for part, spans in self.spanned():
            first = part.rows.start - self.held.rows.start
            own = found[first : first + len(part.rows)]
            if spans is not None:
                own += summed[spans.high + part.keys.start] - summed[spans.low + part.keys.start]
            else:
                for rows, cols, seen in _walk(part):
                    own[rows] += seen @ marks[part.keys.start :][cols]
        return found

    def seen(self) -> Array:
        """(keys,) int64: how many of the recorded rows may see each key."""
        found = np.zeros(self.held.place.keys + 1, np.int64)
        steps = np.zeros_like(found)
        for part, spans in self.spanned():
            if spans is not None:
                np.add.at(steps, spans.low + part.keys.start, 1)
                np.add.at(steps, spans.high + part.keys.start, -1)
            else:
                for _, cols, seen in _walk(part):
                    first = part.keys.start
                    found[first + cols.start : first + cols.stop] += seen.sum(0)
        return (found + np.cumsum(steps))[:-1]

    def even(self) -> NDArray[np.float64]:
        """(keys,): what each key would receive if every recorded row looked at all the keys it may
        see alike, Σ 1 / visible over the rows that see it; 0 where none does."""
        shares = 1 / np.maximum(self.visible(), 1)
        found, steps = np.zeros((2, self.held.place.keys + 1))
        for part, spans in self.spanned():
            first = part.keys.start
            own = shares[part.rows.start - self.held.rows.start :][: len(part.rows)]
            if spans is not None:
                np.add.at(steps, spans.low + first, own)
                np.add.at(steps, spans.high + first, -own)
            else:
                for rows, cols, seen in _walk(part):
                    found[first + cols.start : first + cols.stop] += own[rows] @ seen
        return np.where(self.seen() > 0, (found + np.cumsum(steps))[:-1], 0.0)

    def spanned(self) -> Iterator[tuple[Part, Spans | None]]:
        """Each part with its rows' intervals of keys, where its mask is such intervals."""
        for part in self.parts:
            yield part, _spans(part)


# ── as intervals ─────────────────────────────────────────────────────────────────────────────


class VisibleSpans(NamedTuple):
    """Row rows[n] sees the keys low[n] ≤ j < high[n]: what chance would give a pattern follows."""

    rows: Array  # (R,) the recorded rows
    low: Array
    high: Array

    @property
    def visible(self) -> Array:
        """(R,): how many keys each row sees."""
        return self.high - self.low

    def within(self, start: Array | int, stop: Array | int) -> Array:
        """(R,): how many of the keys start ≤ j < stop each row sees."""
        count = np.minimum(self.high, stop) - np.maximum(self.low, start)
        return np.maximum(count, 0)

    def among(self, marks: Array) -> Array:
        """(R,): how many of the marked keys each row sees; marks is (keys,) of booleans."""
        summed = np.concatenate([[0], np.cumsum(marks, dtype=np.int64)])
        return summed[self.high] - summed[self.low]

    def even(self, keys: int) -> Array:
        """(keys,): what each key gets if every row spreads evenly over what it sees."""
        share, steps = 1 / np.maximum(self.visible, 1), np.zeros(keys + 1)
        seeing = self.visible > 0
        np.add.at(steps, self.low[seeing], share[seeing])
        np.subtract.at(steps, self.high[seeing], share[seeing])
        even: Array = np.maximum(np.cumsum(steps)[:-1], 0)
        return even


def visible_spans(held: Held, head: int) -> VisibleSpans | None:
    """Of the recorded rows of a head; None where a mask is not known, or not made of intervals."""
    sight, rows = Sight(held, head), held.rows
    if not sight.is_complete:
        return None
    found = VisibleSpans(*(np.zeros(len(rows), np.int64) for _ in range(3)))
    found.rows[:] = np.arange(rows.start, rows.stop)
    for part, spans in sight.spanned():
        if spans is None:
            return None
        at = slice(part.rows.start - rows.start, part.rows.stop - rows.start)
        found.low[at], found.high[at] = (side + part.keys.start for side in spans)
    return found


# ── as cells ─────────────────────────────────────────────────────────────────────────────────


def seen_cells(sight: Sight, rows: Array, keys: Array) -> NDArray[np.bool_]:
    """(R, C): whether each of the rows may see each of the keys."""
    found = np.zeros((rows.size, keys.size), np.bool_)
    for part in sight.parts:
        down = np.flatnonzero((rows >= part.rows.start) & (rows < part.rows.stop))
        across = np.flatnonzero((keys >= part.keys.start) & (keys < part.keys.stop))
        if down.size and across.size:
            i, j = rows[down] - part.first_row, keys[across] - part.keys.start
            found[np.ix_(down, across)] = _allowed(part, i, j)
    return found


def uniform_cells(sight: Sight, cell: int) -> NDArray[np.float64]:
    """(⌈queries/cell⌉, ⌈keys/cell⌉): the mean weight in each cell if every row looked at all the
    keys it may see alike. 0 where none may be seen, or no row was recorded."""
    shape = sight.held.place.queries, sight.held.place.keys
    found = np.zeros([-(-n // cell) for n in shape])
    for part, spans in sight.spanned():
        if spans is None:
            _add_counted(found, part, shape[1], cell)
        else:
            _add_spans(found, part, spans, shape[1], cell)
    return found / np.maximum(areas(shape, cell), 1)


def _add_counted(found: Array, part: Part, keys: int, cell: int) -> None:
    """Cell by cell, where the keys that a row sees have gaps between them."""
    starts, every_key = np.arange(0, keys, cell), np.arange(len(part.keys))
    step = max(len(part.rows) * len(part.keys) // _MOST, 1)  # each row stands for so many
    every = np.arange(part.rows.start, part.rows.stop, step)
    for at in range(0, every.size, _AT_ONCE):
        rows = every[at : at + _AT_ONCE]
        seen = np.zeros((rows.size, keys), np.int64)
        seen[:, part.keys.start : part.keys.stop] = _allowed(part, rows - part.first_row, every_key)
        counts = np.add.reduceat(seen, starts, axis=1)
        visible = np.maximum(counts.sum(1, keepdims=True), 1)
        np.add.at(found, rows // cell, step * counts / visible)


def _add_spans(found: Array, part: Part, spans: Spans, keys: int, cell: int) -> None:
    """Without a look at any cell: up to an edge e, the keys from `low` to `high` that weigh w each
    sum to w·max(e − low, 0) − w·max(e − high, 0); a cell is the difference of two edges."""
    rows = np.array(part.rows)
    low, high = (side + part.keys.start for side in spans)
    down, size = rows // cell, found.shape
    edges = np.minimum(np.arange(size[1] + 1) * cell, keys)

    def up_to(at: Array, weight: Array) -> Array:  # (row cells, edges): Σ w·max(e − at, 0)
        slot = down * edges.size + at // cell
        sums = [
            np.bincount(slot, each, size[0] * edges.size).reshape(size[0], edges.size)
            for each in (weight, weight * at)
        ]
        before, moments = (np.cumsum(one, axis=1) - one for one in sums)
        return edges * before - moments

    def spread(weight: Array) -> Array:
        return np.diff(up_to(low, weight) - up_to(high, weight), axis=1)

    counts = spread(np.ones(rows.size))  # whole numbers: exact, so that nothing seen is 0
    found += np.where(counts > 0, spread(1 / np.maximum(high - low, 1)), 0.0)


# ── one segment ──────────────────────────────────────────────────────────────────────────────


def _is_told(segment: Segment) -> bool:
    said = segment.mask, segment.score
    return UNKNOWN not in said and not not_here(*said)


def _spans(part: Part) -> Spans | None:
    """(rows,): row i sees keys low ≤ j < high, counted from the part's first key."""
    count, keys = len(part.rows), len(part.keys)
    if part.rules.hides_by_bias:
        return None
    if part.rules.mask is None:
        return Spans(np.zeros(count, np.int64), np.full(count, keys))
    spans, rest = spans_of(part.rules.mask, part.rules.extent)
    if spans is None or rest is not None:
        return None
    first = part.rows.start - part.first_row
    low, high = (
        np.broadcast_to(side, (part.rules.extent.queries,))[first : first + count].clip(0, keys)
        for side in spans
    )
    return Spans(low, np.maximum(low, high))


def _walk(part: Part) -> Iterator[tuple[slice, slice, Array]]:
    """Rows and keys of the part, and whether each of the rows may see each of the keys."""
    first = part.rows.start - part.first_row
    for top in range(0, len(part.rows), _TILE[0]):
        rows = slice(top, min(top + _TILE[0], len(part.rows)))
        i = np.arange(rows.start, rows.stop) + first
        for left in range(0, len(part.keys), _TILE[1]):
            cols = slice(left, min(left + _TILE[1], len(part.keys)))
            yield rows, cols, _allowed(part, i, np.arange(cols.start, cols.stop))


def _allowed(part: Part, i: Array, j: Array) -> Array:
    rules, shape = part.rules, (i.size, j.size)
    seen: Array = np.ones(shape, bool)
    if rules.mask is not None:
        seen &= np.broadcast_to(rules.mask.allows(i, j, rules.extent), (1, *shape))[0]
    if rules.hides_by_bias and rules.score.bias is not None:
        bias = rules.score.bias.tile(i, j, rules.extent)
        seen &= np.broadcast_to(bias, (1, *shape))[0] != -np.inf
    return seen
