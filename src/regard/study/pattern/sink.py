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
    """Σ over sink keys of the mean weight. A key is a sink if the rows that see it (64 of them at
    least, else the last tokens qualify by chance) give it over 0.3 on average."""

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
        return Measure(
            head.sink, chance, conditional=float("nan"), detail=detail, compared=highest,
            trial=self._held_against_chance(head, detail),
        )  # fmt: skip

    def _held_against_chance(self, head: HeadFacts, detail: Mapping[str, Any]) -> Trial:
        """The sinks are the best of all keys; what goes to a learned one goes to no key at all."""
        keys, candidates = len(detail["keys"]), int(head.sinks.marks.size)
        if head.learned_sink > SINK or not keys:
            return hoeffding(head.sink, 0.0, int(head.rows))
        return self.trial(head, detail, head.sink, choices=candidates**keys)

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
