"""Where the positions of a place lie in a picture, and the rows that patterns of patches are
judged by.

A pattern such as "the patches beside one's own" needs single rows, computed from q and k: all rows
where these have 2²⁰ cells or fewer, else so many of them drawn by lot, always the same. Memory is
bounded by that, and by the length of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from regard.axes import Axis, Grid, Tokens
from regard.errors import InputError, UnavailableError
from regard.recording import Head
from regard.recording.stores import Array

if TYPE_CHECKING:
    from regard.study.facts import PlaceFacts

_MOST_CELLS: Final = 2**20  # of a head that are computed
_LEAST_ROWS: Final = 128  # … but so many rows at least


class Spots(NamedTuple):
    """What is known of positions, (n,) each."""

    grid: Array  # which of the axis's grids; −1 where it is no patch
    frame: Array
    row: Array
    column: Array
    border: Array  # booleans: in the outermost ring of its picture
    register: Array  # booleans: class and register tokens, which stand before the patches
    text: Array  # booleans: tokens of a text

    def at(self, positions: Array) -> Spots:
        """Of some positions, in any shape."""
        return Spots(*(one[positions] for one in self))


def spots_of(axis: Axis) -> Spots:
    """Of every position. Windows of a picture have no border of their own."""
    size = len(axis)
    numbers = [np.full(size, -1) for _ in range(4)]
    border, register, text = (np.zeros(size, bool) for _ in range(3))
    grids = 0
    for start, part in axis.starts():
        if isinstance(part, Tokens):
            text[start : start + part.count] = True
        if not isinstance(part, Grid):
            continue
        register[start : start + part.prefix] = True
        own = slice(start + part.prefix, start + part.count)
        for array, values in zip(numbers, (grids, *part.places.T), strict=True):
            array[own] = values
        if part.apart or (part.windows == (1, 1) and not part.shift):
            (_, y, x), last = part.places.T, (part.height - 1, part.width - 1)
            border[own] = (y == 0) | (x == 0) | (y == last[0]) | (x == last[1])
        grids += 1
    grid, frame, row, column = numbers
    return Spots(grid, frame, row, column, border, register, text)


# Whether a key belongs to the pattern of a query, from where both lie; they broadcast.
Relation = Callable[[Spots, Spots], Array]


def near(width: int) -> Relation:
    """Patches of the same picture 1 … width rows or columns away, also crosswise (Chebyshev); not
    the patch itself."""

    def within(query: Spots, key: Spots) -> Array:
        away = np.maximum(np.abs(query.row - key.row), np.abs(query.column - key.column))
        return _same_picture(query, key) & (away > 0) & (away <= width)

    return within


def same_row(query: Spots, key: Spots) -> Array:
    """Other patches of the row."""
    found: Array = (query.row == key.row) & (query.column != key.column)
    return found & _same_picture(query, key)


def same_column(query: Spots, key: Spots) -> Array:
    """Other patches of the column."""
    found: Array = (query.column == key.column) & (query.row != key.row)
    return found & _same_picture(query, key)


def same_place(step: int) -> Relation:
    """The patch at the same place, so many frames later."""

    def moved(query: Spots, key: Spots) -> Array:
        found: Array = (query.grid == key.grid) & (query.grid >= 0)
        found = found & (key.frame - query.frame == step)
        return found & (query.row == key.row) & (query.column == key.column)

    return moved


def _same_picture(query: Spots, key: Spots) -> Array:
    found: Array = (query.grid == key.grid) & (query.frame == key.frame) & (query.grid >= 0)
    return found


class PatchFacts:
    """The patches among a place's queries and keys."""

    def __init__(self, place: PlaceFacts) -> None:
        self._place = place
        self.axes = place.prompt.axes(place.place.label)
        self.queries, self.keys = (spots_of(axis) for axis in self.axes)
        self._masks: dict[str, Array] = {}

    @property
    def has_frames(self) -> bool:
        """Whether there is a film among the pictures."""
        return any(grid.frames > 1 for _, grid in self.axes[1].grids())

    @property
    def is_windowed(self) -> bool:
        """Whether a head sees a part of its picture only."""
        grids = (grid for _, grid in self.axes[1].grids() if not grid.apart)
        return any(grid.windows != (1, 1) or grid.shift > 0 for grid in grids)

    @cached_property
    def rows(self) -> Array:
        """(n,) ascending: the rows that are computed; of words and patches alike where it cannot
        be all."""
        recorded, keys = self._place.rows, max(self._place.place.keys, 1)
        every = np.arange(recorded.start, recorded.stop)
        most = max(_MOST_CELLS // keys, _LEAST_ROWS)
        if every.size <= most:
            return every
        is_text = self.queries.text[every]
        words, others = every[is_text], every[~is_text]
        few = min(words.size, max(most // 2, most - others.size))
        chosen = [_drawn(words, few), _drawn(others, min(others.size, most - few))]
        return np.sort(np.concatenate(chosen))

    @property
    def at(self) -> Array:
        """(n,): where those rows stand among the recorded ones."""
        return self.rows - self._place.rows.start

    def mask(self, name: str, relation: Relation) -> Array:
        """(n, keys) booleans: the keys that belong to each of the rows."""
        if name not in self._masks:
            self._masks[name] = relation(self.queries.at(self.rows[:, None]), self.keys)
        return self._masks[name]

    def spread(self, numbers: Array) -> Array:
        """(R,) for the recorded rows from (n,) for those that are computed; 0 in the others."""
        found = np.zeros(len(self._place.rows), numbers.dtype)
        found[self.at] = numbers
        return found


def _drawn(some: Array, count: int) -> Array:
    return np.random.default_rng(0).choice(some, count, replace=False)


def patch_offsets(head: Head, grid: int = 0) -> Array:
    """(2·height − 1, 2·width − 1): the mean weight that a patch gives to the patch so many rows
    below and columns to the right of it, of the same picture; its own is in the middle.

    Over the recorded patches of one of the head's grids, exactly, from q and k; tile by tile.
    """
    if head.query_axis != head.key_axis or not head.key_axis.grids():
        raise InputError(f"{head.label}: its queries and keys are not the patches of one picture")
    if head.why_not:
        raise UnavailableError(f"{head.label}: {head.why_not}")
    spots, (_, own) = spots_of(head.key_axis), head.key_axis.grids()[grid]
    keys = np.flatnonzero(spots.grid == grid)
    rows = keys[(keys >= head.recorded.start) & (keys < head.recorded.stop)]
    width, high = 2 * own.width - 1, 2 * own.height - 1
    found, step = np.zeros(high * width), max(_MOST_CELLS // max(keys.size, 1), 1)
    for at in range(0, rows.size, step):
        some = rows[at : at + step]
        query, key = spots.at(some[:, None]), spots.at(keys)
        down, right = key.row - query.row + own.height - 1, key.column - query.column + own.width
        same = query.frame == key.frame
        weights = head[some, :][:, keys][same]
        found += np.bincount((down * width + right - 1)[same], weights, found.size)
    return (found / max(rows.size, 1)).reshape(high, width)
