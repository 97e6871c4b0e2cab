"""Patterns of distance: the token before, the token itself, a fixed offset, the neighbourhood."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from regard.recording.store import Array
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, unknown

__all__ = ["AtDistance", "BestOffset", "Near"]

_SINGLE: Final = 0.3  # the mean weight from which one distance is a pattern by itself
_NARROW: Final = 16  # a bin of distances is narrow if so many times as many rows share it
_NO_PROFILE: Final = "the mass by distance was not kept"
_CROSS: Final = "queries and keys are different sequences"


class AtDistance(MassPattern):
    """mean over i ≥ o of p(i, i − o), for one distance o."""

    threshold = _SINGLE
    needs_sinks: ClassVar[bool] = False

    def __init__(self, name: str, offset: int) -> None:
        self.name, self._offset = name, offset

    def measure(self, head: HeadFacts) -> Measure:
        """From the mass by distance."""
        why_not = _without_profile(head)
        if why_not:
            return unknown(why_not)
        shares, edges = _shares(head)
        at = int(np.searchsorted(edges, self._offset, side="right")) - 1
        if not 0 <= at < shares.size:
            return Measure(0.0, detail=_span(self._offset, self._offset + 1))
        if edges[at + 1] - edges[at] > 1:
            return unknown("distances were kept in bins")
        return self._measured(head, float(shares[at]), self._offset, self._offset + 1)

    def _measured(self, head: HeadFacts, share: float, start: int, stop: int) -> Measure:
        detail = _span(start, stop)
        return Measure(share, self.chance(head, detail), detail=detail)

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """One key a row, or none."""
        if head.reach is None:
            return None
        rows, (start, stop) = head.reach.rows, _ends(detail)
        return head.reach.within(rows - stop + 1, rows - start + 1)

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """Keys at that distance."""
        start, stop = _ends(detail)
        away = rows - keys
        return (away >= start) & (away < stop)

    def eligible(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array:
        """Rows that have such a key at all."""
        rows = np.arange(head.place.rows.start, head.place.rows.stop)
        start, stop = _ends(detail)
        return (rows - start >= 0) & (rows - stop + 1 < head.place.place.keys)


class BestOffset(AtDistance):
    """The one distance, other than 0 and 1, that gets most: the same number for it."""

    def __init__(self) -> None:
        super().__init__("offset", 0)

    def measure(self, head: HeadFacts) -> Measure:
        """The best of the distances that enough rows have."""
        why_not = _without_profile(head)
        if why_not:
            return unknown(why_not)
        shares, edges = _shares(head)
        starts, width = edges[:-1], np.diff(edges)
        counts = _row_counts(head, starts, edges[1:])
        fair = (counts >= head.place.few) & ((width == 1) | (width * _NARROW <= counts))
        fair &= (edges[1:] <= 0) | (starts >= 2)
        if not fair.any():
            return unknown("no other distance is shared by enough rows")
        order = np.argsort(np.abs(starts), kind="stable")  # of equals, the nearest
        best = int(order[np.argmax(np.where(fair, shares, -1)[order])])
        start, stop = int(edges[best]), int(edges[best + 1])
        found = self._measured(head, float(shares[best]), start, stop)
        return _questioned(head, found, start) if stop - start == 1 else found


class Near(MassPattern):
    """Mean mass on keys less than w tokens away, oneself included.

    A distance that is a pattern by itself (and, for a wide neighbourhood, a narrow one that is)
    says it better: the label is given for what is left without it.
    """

    threshold = 0.5  # of many keys: more is asked than of one
    needs_sinks: ClassVar[bool] = False

    def __init__(self, width: int, inner: Near | None = None) -> None:
        self.name, self._width, self._inner = f"local-{width}", width, inner

    def measure(self, head: HeadFacts) -> Measure:
        """From the mass by distance."""
        why_not = _without_profile(head)
        if why_not:
            return unknown(why_not)
        profile = head.place.profile
        assert profile is not None
        edges, width = profile.edges, self._width
        inside = (edges[:-1] > -width) & (edges[1:] <= width)
        shares = profile.masses[head.slot] / head.rows
        detail = {"width": width}
        score = float(shares[inside].sum())
        said = inside & (shares >= _SINGLE)
        if self._inner is not None and not self._inner.objection(head, self._inner.measure(head)):
            narrow = self._inner._width
            said |= (edges[:-1] > -narrow) & (edges[1:] <= narrow)
        chance = self.chance(head, detail)
        left = score - float(shares[said].sum()) - (0.0 if math.isnan(chance) else chance)
        better = "a sharper label says it" if left < self.threshold else ""
        return Measure(score, chance, detail=detail, objection=better)

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Its neighbours that each row sees."""
        if head.reach is None:
            return None
        rows = head.reach.rows
        return head.reach.within(rows - self._width + 1, rows + self._width)

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """Keys less than w away."""
        return np.abs(rows - keys) < self._width


def _span(start: int, stop: int) -> dict[str, Any]:
    """How a distance, or a bin of them, is told."""
    return {"offset": start} if stop - start == 1 else {"offset": start, "to": stop - 1}


def _ends(detail: Mapping[str, Any]) -> tuple[int, int]:
    return detail["offset"], detail.get("to", detail["offset"]) + 1


def _without_profile(head: HeadFacts) -> str:
    if head.place.place.kind != "self":
        return _CROSS
    return _NO_PROFILE if head.place.profile is None or not head.rows > 0 else ""


def _row_counts(head: HeadFacts, start: Array, stop: Array) -> Array:
    """How many recorded rows have a key at a distance start ≤ d < stop."""
    rows, keys = head.place.rows, head.place.place.keys
    count = np.minimum(rows.stop, keys + stop - 1) - np.maximum(rows.start, start)
    return np.maximum(count, 0)


def _shares(head: HeadFacts) -> tuple[Array, Array]:
    """(bins,): the mean mass of a bin of distances over the rows that have one, and its edges."""
    profile = head.place.profile
    assert profile is not None
    counts = _row_counts(head, profile.edges[:-1], profile.edges[1:])
    counts = counts - (len(head.place.rows) - head.rows)  # rows that see nothing at all
    shares = np.where(counts > 0, profile.masses[head.slot] / np.maximum(counts, 1), 0)
    return shares, profile.edges


def _questioned(head: HeadFacts, found: Measure, offset: int) -> Measure:
    """An offset at which this very text repeats itself cannot be told from a match of tokens."""
    ids = head.place.ids
    if ids is None or offset < 1 or offset + 1 >= ids.size:
        return found
    later = ids[offset + 1 :]
    same = (later == ids[1 : ids.size - offset]) | (later == ids[: ids.size - offset - 1])
    if same.mean() <= 0.5:
        return found
    words = f"this text repeats itself every {offset} tokens or so, which tokens alone explain"
    return Measure(found.score, found.chance, detail=found.detail, objection=words)
