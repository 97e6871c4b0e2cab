"""Who may see whom, by the masks alone: known for every head, whether or not q and k were kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from regard.mask.spans import Spans, spans_of
from regard.recording.layer import Held
from regard.recording.replay import Part
from regard.recording.rules import not_here
from regard.recording.schema import UNKNOWN, Segment
from regard.recording.stores import Array

_TILE: Final = (256, 4096)  # rows and keys that are looked at at once, where no interval tells


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
            len(part.rows) * len(part.keys) for part, spans in self._spanned() if spans is None
        )

    def visible(self) -> Array:
        """(rows,) int64: how many keys each recorded row may see."""
        return self.among(np.ones(self.held.place.keys, np.int64))

    def among(self, marks: Array) -> Array:
        """(rows,): Σ marks (keys,) over the keys that each recorded row may see."""
        found = np.zeros(len(self.held.rows), marks.dtype)
        summed = np.concatenate([np.zeros(1, marks.dtype), np.cumsum(marks, dtype=marks.dtype)])
        for part, spans in self._spanned():
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
        for part, spans in self._spanned():
            if spans is not None:
                np.add.at(steps, spans.low + part.keys.start, 1)
                np.add.at(steps, spans.high + part.keys.start, -1)
            else:
                for _, cols, seen in _walk(part):
                    first = part.keys.start
                    found[first + cols.start : first + cols.stop] += seen.sum(0)
        return (found + np.cumsum(steps))[:-1]

    def _spanned(self) -> Iterator[tuple[Part, Spans | None]]:
        """Each part with its rows' intervals of keys, where its mask is such intervals."""
        for part in self.parts:
            yield part, _spans(part)


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
