"""Sinks: keys that nearly every row gives a large share to, whatever it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from regard.recording.sinks import SINK
from regard.recording.stores import Array
from regard.study.chance import Trial, hoeffding
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, unknown


class Sink(MassPattern):
    """Σ over sink keys of the mean weight, over the rows that see one. A key is a sink if the rows
    that see it (64 of them at least, else the last tokens qualify by chance) give it over 0.3 on
    average."""

    name = "sink"
    threshold = 0.3  # the same as for a key: Gu et al. 2024
    needs_rest: ClassVar[bool] = False

    def measure(self, head: HeadFacts) -> Measure:
        """Mass on sinks, a learned one among them."""
        if not np.isfinite(head.non_sink):
            return unknown(head.sinks_unknown)
        detail = self._detail(head)
        chance = self.chance(head, detail) if detail["keys"] else 0.0
        highest = max(head.sinks.highest, head.learned_sink)
        score = self._score(head, detail)
        return Measure(
            score, chance, conditional=float("nan"), detail=detail, compared=highest,
            trial=self._held_against_chance(head, detail, score), by_tokens=self._by_tokens(head),
        )  # fmt: skip

    def _score(self, head: HeadFacts, detail: Mapping[str, Any]) -> float:
        """The mean over rows that see a sink: a window leaves the first token behind."""
        counts = self.counts(head, detail)
        if counts is None or head.learned_sink > SINK:
            return head.sink
        some = int(np.count_nonzero(counts))
        return min(head.sink * head.rows / some, 1.0) if some else head.sink

    def _held_against_chance(
        self, head: HeadFacts, detail: Mapping[str, Any], score: float
    ) -> Trial:
        """The sinks are the best of all keys; what goes to a learned one goes to no key at all."""
        keys, candidates = len(detail["keys"]), int(head.sinks.marks.size)
        if head.learned_sink > SINK or not keys:
            seen = None if head.reach is None else head.reach.visible
            beside = 0.0 if seen is None else float((1 / (seen[seen > 0] + 1)).mean())
            return hoeffding(score, beside, int(head.rows))
        return self.trial(head, detail, score, choices=candidates**keys)

    def _by_tokens(self, head: HeadFacts) -> float:
        """All rows may share a preference by chance, most easily of a key that is not the first:
        deep layers of random weights rest on any."""
        marks = head.sinks.marks
        if head.learned_sink > SINK or not marks.any():
            return 0.0
        choices = 1 if marks[0] else marks.size
        return choices * head.tokens_apart(marks, ~marks)

    def eligible(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array:
        """Rows that see a sink, where masks tell."""
        counts = None if head.learned_sink > SINK else self.counts(head, detail)
        return super().eligible(head, detail) if counts is None else counts > 0

    def _detail(self, head: HeadFacts) -> dict[str, Any]:
        """Which keys, and their tokens."""
        keys, texts = head.sinks.keys.tolist(), head.place.texts
        detail: dict[str, Any] = {"keys": keys}
        if texts is not None:
            detail["tokens"] = [texts[key] for key in keys]
        return detail | ({"learned": head.learned_sink} if head.learned_sink else {})

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Sinks that each row sees."""
        if head.reach is None:
            return None
        return head.reach.among(head.sinks.marks)

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """Sinks are the same for every row."""
        found = head.sinks.among(keys)
        return np.broadcast_to(found, np.broadcast_shapes(rows.shape, keys.shape))
