"""Patterns of distance: the token before, the token itself, a fixed offset, the neighbourhood."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np

from regard.recording.stores import Array
from regard.study.chance import LEAST_ROWS
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, OfWhatIsLeft, beyond_chance, unknown

_SINGLE: Final = 0.3  # the mean weight from which one distance is a pattern by itself
_NARROW: Final = 16  # a bin of distances is narrow if so many times as many rows share it
_NO_PROFILE: Final = "the mass by distance was not kept"
_MIXED: Final = "the mass by distance was kept of words and patches together, without q and k"
_CROSS: Final = "queries and keys are different sequences"


class AtDistance(MassPattern):
    """mean over i ≥ o of p(i, i − o), for one distance o.

    It is judged by the rows whose key at that distance is no copy of their token and follows none:
    in the others a head that looks for tokens looks there too.
    """

    threshold = _SINGLE
    needs_sinks: ClassVar[bool] = False
    row_context: ClassVar[int] = 0  # a head that scores tokens spreads over copies of the key

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

    def _measured(
        self, head: HeadFacts, share: float, start: int, stop: int, choices: int = 1
    ) -> Measure:
        detail = _span(start, stop)
        chance = self.chance(head, detail)
        if chance == 1 and _sees_one_key(head):
            return Measure(share, chance, detail=detail | {"forced": "every row sees one key"})
        if share < self.threshold or stop - start > 1:
            trial = self.trial(head, detail, share, choices=choices)
            return Measure(share, chance, detail=detail, trial=trial)
        return self._apart_from_tokens(head, Measure(share, chance, detail=detail), choices)

    def _apart_from_tokens(self, head: HeadFacts, found: Measure, choices: int) -> Measure:
        """Judged by the rows that tokens do not explain."""
        detail, offset = found.detail, found.detail["offset"]
        eligible = self.eligible(head, detail)
        by_tokens = _explained(head, offset) & head.place.told
        left = int(np.count_nonzero(eligible & ~by_tokens))
        mass = found.score * np.count_nonzero(eligible) - _mass_on_matches(head, by_tokens)
        share = min(max(mass / max(left, 1), 0.0), 1.0)
        trial = self.trial(head, detail, share, choices=choices, among=~by_tokens)
        chance = 0.0 if math.isnan(found.chance) else found.chance
        lost = share - chance < self.threshold or trial.rows < trial.least
        words = f"this text repeats itself every {offset} tokens or so, which tokens alone explain"
        return replace(found, trial=trial, objection=words if lost and by_tokens.any() else "")

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
        there: Array = (rows - start >= 0) & (rows - stop + 1 < head.place.place.keys)
        return there & head.place.told


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
        # of equals, the nearest; below the first those that may be labels of their own
        order = np.lexsort((np.abs(starts), np.where(fair, -shares, 1)))
        several = order[: max(int(np.count_nonzero(fair & (shares >= self.threshold))), 1)]
        found = [
            self._measured(
                head, float(shares[n]), int(edges[n]), int(edges[n + 1]), int(fair.sum())
            )
            for n in several.tolist()
        ]
        return next((one for one in found if not self.objection(head, one)), found[0])


class Near(OfWhatIsLeft, MassPattern):
    """Mean mass on keys less than w tokens away, oneself included.

    The threshold is a share of what chance leaves over: a row that sees nothing farther away says
    nothing. Rows that do have to be as many as the neighbourhood is wide. A distance that is a
    pattern by itself (and, for a wide neighbourhood, a narrow one that is) says it better: the
    label is given for what is left without it.
    """

    needs_sinks: ClassVar[bool] = False

    def __init__(self, width: int, inner: Near | None = None) -> None:
        self.name, self._width, self._inner = f"local-{width}", width, inner

    def measure(self, head: HeadFacts) -> Measure:
        """From the mass by distance."""
        why_not = _without_profile(head)
        if why_not:
            return unknown(why_not)
        profile = head.by_distance
        assert profile is not None
        edges, width = profile.edges, self._width
        inside = (edges[:-1] > -width) & (edges[1:] <= width)
        shares = profile.masses / max(profile.rows.size - profile.blind, 1)
        detail = {"width": width}
        score = float(shares[inside].sum())
        said = inside & (shares >= _SINGLE)
        if self._inner is not None and self._inner.holds(head):
            narrow = self._inner._width
            said |= (edges[:-1] > -narrow) & (edges[1:] <= narrow)
        chance = self.chance(head, detail)
        left = beyond_chance(score - float(shares[said].sum()), chance)
        better = "a sharper label says it" if left < self.threshold else ""
        trial = self.trial(head, detail, score)._replace(least=max(width, LEAST_ROWS))
        return Measure(score, chance, detail=detail, objection=better, trial=trial)

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Its neighbours that each row sees."""
        if head.reach is None:
            return None
        rows = head.reach.rows
        return head.reach.within(rows - self._width + 1, rows + self._width)

    def eligible(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array:
        """All rows of a text."""
        return head.place.told

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
    if head.by_distance is not None:
        return ""
    return _NO_PROFILE if head.place.patches is None or head.place.profile is None else _MIXED


def _row_counts(head: HeadFacts, start: Array, stop: Array) -> Array:
    """How many of the rows have a key at a distance start ≤ d < stop."""
    assert head.by_distance is not None
    rows, keys = head.by_distance.rows, head.place.place.keys
    count = np.searchsorted(rows, keys + stop - 1) - np.searchsorted(rows, start)
    return np.maximum(count, 0)


def _shares(head: HeadFacts) -> tuple[Array, Array]:
    """(bins,): the mean mass of a bin of distances over the rows that have one, and its edges."""
    profile = head.by_distance
    assert profile is not None
    counts = _row_counts(head, profile.edges[:-1], profile.edges[1:])
    counts = counts - profile.blind
    shares = np.where(counts > 0, profile.masses / np.maximum(counts, 1), 0)
    return shares, profile.edges


def _sees_one_key(head: HeadFacts) -> bool:
    """Whether the mask leaves no row a choice: each sees one key, and there are several rows."""
    return head.reach is not None and len(head.place.rows) > 1 and (head.reach.visible == 1).all()


def _explained(head: HeadFacts, offset: int) -> Array:
    """(R,) booleans: rows whose key so far back is a copy of their token, or follows one."""
    ids, rows = head.place.ids, np.arange(head.place.rows.start, head.place.rows.stop)
    if ids is None or offset < 1:
        return np.zeros(rows.size, bool)
    key = rows - offset
    copy = (key >= 0) & (ids[np.maximum(key, 0)] == ids[rows])
    found: Array = copy | ((key >= 1) & (ids[np.maximum(key - 1, 0)] == ids[rows]))
    return found


def _mass_on_matches(head: HeadFacts, rows: Array) -> float:
    """Mass on copies and what follows them, in the marked rows (R,): at most so much of it."""
    count = np.cumsum(np.append(0, rows))
    parts = [head.numbers(name) for name in ("duplicate", "prefix")]
    if parts[0] is None or parts[1] is None:
        return float(count[-1])
    first, last = (edge - head.place.rows.start for edge in parts[0][:2])
    marked = count[last + 1] - count[first]
    masses = sum(part.values for part in parts if part is not None) * (last - first + 1)
    return float(np.minimum(masses, marked).sum())
