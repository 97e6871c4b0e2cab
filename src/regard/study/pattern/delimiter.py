"""Delimiters: punctuation and line breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.recording.store import Array
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, unknown

__all__ = ["Delimiter"]


class Delimiter(MassPattern):
    """Mean mass on punctuation and line breaks. A full stop that is a sink counts as a sink."""

    name = "delimiter"
    threshold = 0.3

    def measure(self, head: HeadFacts) -> Measure:
        """From the mass that keys received."""
        marks = head.place.delimiters
        if marks is None:
            return unknown("the tokens are not known")
        if head.received is None or head.place.place.key_bin > 1:
            return unknown("the mass that single keys received was not kept")
        if not marks.any():
            return unknown("this text has no punctuation and no line break")
        score, rest = (
            float(head.received[which].sum()) / head.rows
            for which in (marks, marks & ~head.sinks.marks)
        )
        return Measure(score, self.chance(head, {}), rest)

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Delimiters that each row sees."""
        marks = head.place.delimiters
        return None if head.reach is None or marks is None else head.reach.among(marks)

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """The same for every row."""
        marks = head.place.delimiters
        assert marks is not None  # `measure` has said so
        found = marks[np.maximum(keys, 0)] & (keys >= 0)
        return np.broadcast_to(found, np.broadcast_shapes(rows.shape, keys.shape))
