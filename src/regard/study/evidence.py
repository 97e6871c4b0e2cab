"""The rows that show a pattern best, and one that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from regard.recording.stores import Array
from regard.study.facts import HeadFacts
from regard.study.finding import SeenAt
from regard.study.pattern import Measure, Pattern, RowValues

_BEST: Final = 3


def rows_that_show(
    pattern: Pattern, head: HeadFacts, measure: Measure
) -> tuple[tuple[SeenAt, ...], SeenAt | None]:
    """The best few, best first, and a counter-example; of rows that could have done otherwise."""
    found = pattern.rows(head, measure)
    if found is None or not found.telling.any():
        return (), None
    some, sign = np.flatnonzero(found.telling), 1 if pattern.lower else -1
    order = some[np.argsort(sign * found.excess[some], kind="stable")][:_BEST]
    best = tuple(_seen(pattern, head, measure, found, n, False) for n in order.tolist())
    if some.size <= _BEST:
        return best, None
    least = int(some[np.argmax(sign * found.values[some])])
    return best, _seen(pattern, head, measure, found, least, True)


def _seen(
    pattern: Pattern, head: HeadFacts, measure: Measure, found: RowValues, n: int, counter: bool
) -> SeenAt:
    first, last, known = int(found.first[n]), int(found.last[n]), bool(found.known[n])
    one = SeenAt(first, last, _text(head, first, "query"), float(found.values[n]), known)
    if head.head.exact and (last > first or not known):
        return _computed(pattern, head, measure, one, counter)
    return _listed(pattern, head, measure, one, counter)


def _listed(
    pattern: Pattern, head: HeadFacts, measure: Measure, one: SeenAt, counter: bool
) -> SeenAt:
    """With the heaviest key, from the list of them."""
    tops = head.tops
    if tops is None or one.last > one.row:
        return one
    at = int(np.searchsorted(tops.rows, one.row))
    if at >= len(tops.rows) or tops.rows[at] != one.row:
        return one
    return _looking(pattern, head, measure, one, tops.keys[at], tops.weights[at], counter)


def _computed(
    pattern: Pattern, head: HeadFacts, measure: Measure, one: SeenAt, counter: bool
) -> SeenAt:
    """The row itself, or of a bin the row that shows most (or least) of it."""
    rows = np.arange(one.row, one.last + 1)
    weights = head.head.rows(rows)
    members = [pattern.members(head, measure, row) for row in rows.tolist()]
    masses = [
        float(p[own].sum(dtype=np.float64))
        for p, own in zip(weights, members, strict=True)
        if own is not None
    ]
    if not masses:  # no mass: a bin's mean is all there is
        return one
    at = int(np.argmin(masses) if counter else np.argmax(masses))
    row = int(rows[at])
    exact = SeenAt(row, row, _text(head, row, "query"), masses[at], True)
    return _looking(
        pattern, head, measure, exact, np.arange(weights.shape[1]), weights[at], counter
    )


def _looking(
    pattern: Pattern,
    head: HeadFacts,
    measure: Measure,
    one: SeenAt,
    keys: Array,
    weights: Array,
    counter: bool,
) -> SeenAt:
    """With the heaviest of these keys; of those that belong to the pattern, unless it counters."""
    mine = weights > 0
    members = None if counter else pattern.members(head, measure, one.row)
    if members is not None:
        mine = mine & members[np.maximum(keys, 0)]
    if not mine.any():
        return one
    at = int(np.argmax(np.where(mine, weights, -1)))
    key = int(keys[at])
    text = _text(head, key, "key")
    return replace(one, key=key, key_token=text, weight=float(weights[at]))


def _text(head: HeadFacts, token: int, side: str) -> str | None:
    texts = head.head.query_names if side == "query" else head.head.key_names
    return texts[token] if texts is not None and token < len(texts) else None
