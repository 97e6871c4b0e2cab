"""What each row may see, as intervals of keys: what chance would give a pattern follows from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.mask.spans import spans_of
from regard.recording.layer import Held
from regard.recording.replay import Part
from regard.recording.stores import Array
from regard.recording.visibility import Sight


class Reach(NamedTuple):
    """Row rows[n] sees the keys low[n] ≤ j < high[n]."""

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
        found: Array = summed[self.high] - summed[self.low]
        return found


def reach_of(held: Held, head: int) -> Reach | None:
    """Of the recorded rows of a head; None where a mask is not known, or not made of intervals."""
    sight, rows = Sight(held, head), held.rows
    if not sight.is_complete:
        return None
    reach = Reach(*(np.zeros(len(rows), np.int64) for _ in range(3)))
    reach.rows[:] = np.arange(rows.start, rows.stop)
    for part in sight.parts:
        bounds = _bounds(part)
        if bounds is None:
            return None
        at = slice(part.rows.start - rows.start, part.rows.stop - rows.start)
        reach.low[at], reach.high[at] = bounds
    return reach


def _bounds(part: Part) -> tuple[Array, Array] | None:
    """First key and one beyond the last, of each row of the part."""
    keys, rules = part.keys, part.rules
    if rules.hides_by_bias:
        return None
    spans, rest = spans_of(rules.mask, rules.extent)
    if rules.mask is None:
        return np.full(len(part.rows), keys.start), np.full(len(part.rows), keys.stop)
    if spans is None or rest is not None:
        return None
    first = part.rows.start - part.first_row
    low, high = (
        np.broadcast_to(side, (rules.extent.queries,))[first : first + len(part.rows)]
        for side in spans
    )
    low = low.clip(0, len(keys)) + keys.start
    return low, np.maximum(high.clip(0, len(keys)) + keys.start, low)
