"""Patterns of tokens: earlier copies of a row's own token, and what followed them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from regard.recording.stores import Array
from regard.recording.visibility import VisibleSpans
from regard.study.chance import LEAST_ROWS
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, RowValues, unknown


class Copies(MassPattern):
    """Over rows that have such a key j < i: mean mass on the keys j with t(j − lag) = t(i)."""

    needs_sinks: ClassVar[bool] = False
    row_context: ClassVar[int] = 1  # copies of one token are looked at alike
    threshold = 0.3  # on repeated random tokens the median head of a real model is at 0.01

    def __init__(self, name: str, statistic: str, lag: int) -> None:
        self.name, self._statistic, self._lag = name, statistic, lag

    def measure(self, head: HeadFacts) -> Measure:
        """From the mass on matching tokens, which was summed while recording."""
        if head.place.ids is None:
            return unknown("the tokens are not known")
        if not head.has(self._statistic):
            return unknown("the mass on matching tokens was not kept")
        rows = self.eligible(head, {})
        count = int(np.count_nonzero(rows))
        if not count:
            return unknown("no token of this text comes twice")
        score = self._score(head, rows)
        if score is None:
            return unknown(f"rows are binned by {head.place.place.row_bin}: words and patches")
        if not np.isfinite(score):
            return unknown("the sums over its rows were not written")
        rest = max(score - self._on_sinks(head, rows), 0.0)
        left = self._left(head, rows)
        # what lies on matching keys that are no sinks does not lie on sinks
        return Measure(
            score, self.chance(head, {}), rest, trial=self.trial(head, {}, rest),
            non_sink=rest if math.isnan(left) else max(left, rest),
            conditional=min(rest / left, 1.0) if left > 0 else math.nan,
        )  # fmt: skip

    def _score(self, head: HeadFacts, rows: Array) -> float | None:
        """The mean over these rows, which are all that have such a key; within a picture's text,
        from single rows, None where those are not known."""
        if head.place.patches is None:
            return head.total(self._statistic) / int(np.count_nonzero(rows))
        found = head.numbers(self._statistic)
        if found is None or len(found.values) != rows.size:
            return None
        return float(found.values[rows].mean())

    def _left(self, head: HeadFacts, rows: Array) -> float:
        """What is not on sinks in these very rows; NaN where single rows are not known."""
        if head.sink_of_rows is None:
            return math.nan
        return 1 - float(head.sink_of_rows[rows].mean()) - head.learned_sink

    def _on_sinks(self, head: HeadFacts, rows: Array) -> float:
        """Mean mass on matching keys that are sinks: it is the sink's, not the token's. From the
        rows that have such a key, where they are listed; else as much as it can be."""
        own, sinks = head.place.rows.start + np.flatnonzero(rows), head.sinks.keys
        meets = own[self.match(head, {}, own[:, None], sinks).any(-1)]
        if not meets.size:
            return 0.0
        tops, share = head.tops, meets.size / own.size
        listed = np.isin(tops.rows, meets) if tops is not None else np.zeros(0, bool)
        if tops is None or np.count_nonzero(listed) < min(meets.size, LEAST_ROWS):
            return share
        keys = tops.keys[listed]
        hits = head.sinks.among(keys) & self.match(head, {}, tops.rows[listed, None], keys)
        return share * float(np.where(hits, tops.weights[listed], 0).sum(-1).mean())

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Matching keys that each row sees."""
        ids, reach = head.place.ids, head.reach
        if ids is None or reach is None:
            return None
        found: Array = head.once(self.name, lambda: self._counted(ids, reach))
        return found

    def _counted(self, ids: Array, reach: VisibleSpans) -> Array:
        """From the sorted list of each token's places."""
        _, name = np.unique(ids, return_inverse=True)
        places = np.sort(name * ids.size + np.arange(ids.size))
        own = name[reach.rows] * ids.size
        low = np.maximum(reach.low - self._lag, 0)
        high = np.clip(np.minimum(reach.rows, reach.high) - self._lag, low, None)
        found: Array = np.searchsorted(places, own + high) - np.searchsorted(places, own + low)
        return found

    def eligible(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array:
        """Rows that see such a key; where masks do not tell, rows with such a key before them."""
        counts = self.counts(head, detail)
        if counts is not None:
            found: Array = counts > 0
            return found & self._words(head)
        ids, rows = head.place.ids, head.place.rows
        assert ids is not None  # `measure` has said so
        _, first, name = np.unique(ids, return_index=True, return_inverse=True)
        own = np.arange(rows.start, rows.stop)
        found = first[name][own] <= own - 1 - self._lag
        return found & self._words(head)

    def _words(self, head: HeadFacts) -> Array | bool:
        """(R,): the tokens of patches are all alike, and copies of nothing."""
        if head.place.patches is None:
            return True
        rows = head.place.rows
        return head.place.patches.queries.text[rows.start : rows.stop]

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """Earlier keys whose token (or the one before them) is the row's."""
        ids = head.place.ids
        assert ids is not None
        at = np.maximum(keys - self._lag, 0)
        return (ids[at] == ids[rows]) & (keys < rows) & (keys >= self._lag)

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """As they were measured."""
        found = head.numbers(self._statistic)
        if found is None:
            return None
        return self.judged_rows(head, measure, found, np.full(len(found.values), True))
