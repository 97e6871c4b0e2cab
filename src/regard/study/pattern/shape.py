"""Patterns of a row's shape, whichever keys it falls on: even, sharp, saturated, next to none."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from regard.recording.store import Array
from regard.study.facts import HeadFacts
from regard.study.pattern.base import Measure, Pattern, RowValues, unknown
from regard.study.sinks import Tops

__all__ = ["Inactive", "Saturated", "Sharp", "Uniform"]

_PEAK: Final = 0.99
_IMPURITY: Final = 0.01  # 1 − Σp²: gradients of a softmax are of its size
_HAZARD: Final = 100.0  # the score at which QK-clip steps in
_ENOUGH: Final = 16  # keys: a row that sees fewer is even, or sharp, by itself
_NO_TOPS: Final = "the heaviest keys were not kept"


class Uniform(Pattern):
    """Mean entropy as a share of the largest possible, log(visible keys)."""

    name = "uniform"
    threshold = 0.95
    needs_rest: ClassVar[bool] = False

    def measure(self, head: HeadFacts) -> Measure:
        """Summed while recording."""
        score = head.statistic("normalized_entropy")
        if not np.isfinite(score):
            return unknown("the entropy was not kept")
        return Measure(score, conditional=float("nan"))

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """Entropy ÷ log(visible keys)."""
        found = head.numbers("entropy")
        if found is None or head.reach is None:
            return None
        visible = head.reach.visible[(found.first + found.last) // 2 - head.place.rows.start]
        values = found.values / np.log(np.maximum(visible, 2))
        return _plain(head, found.first, found.last, values)


class Sharp(Pattern):
    """The share of rows with one weight above 0.99. Sinks and previous-token heads do this in
    good health."""

    name = "sharp"
    threshold = 0.5

    def measure(self, head: HeadFacts) -> Measure:
        """Counted while recording; of rows whose heaviest key is no sink, from the lists."""
        score = head.statistic("sharp")
        if not np.isfinite(score):
            return unknown("the peaks were not kept")
        return Measure(score, conditional=_share_elsewhere(head))

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """The heaviest weight of each row."""
        found = head.numbers("peak")
        return None if found is None else _plain(head, *found)


class Saturated(Pattern):
    """The share of rows with 1 − Σp² < 0.01 whose heaviest key is no sink. With scores beyond 100
    it is a hazard in training: nothing learns through such a row."""

    name = "saturated"
    threshold = 0.5

    def measure(self, head: HeadFacts) -> Measure:
        """From the heaviest keys; the rest of a row hardly counts in Σp²."""
        tops, score = head.tops, head.statistic("max_score")
        if tops is None or not np.isfinite(score):
            return unknown(_NO_TOPS if tops is None else "the largest scores were not kept")
        some = _enough(head, tops.rows, 2)
        stuck = _purity(tops) > 1 - _IMPURITY
        off = ~head.sinks.among(tops.keys[:, 0])
        share = float((stuck & off)[some].mean()) if some.any() else 0.0
        safe = f"its largest score is {score:.3g}, below {_HAZARD:g}" if score < _HAZARD else ""
        kept = some & off
        conditional = float(stuck[kept].mean()) if kept.any() else float("nan")
        detail = {"max_score": score}
        return Measure(share, conditional=conditional, detail=detail, objection=safe)

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """Σp² of each row."""
        tops = head.tops
        return None if tops is None else _plain(head, tops.rows, tops.rows, _purity(tops))


class Inactive(Pattern):
    """Mean ‖o‖ of the head, over the mean of its layer's heads."""

    name = "inactive"
    threshold = 0.1  # a tenth of what its layer writes
    needs_rest: ClassVar[bool] = False
    lower: ClassVar[bool] = True

    def measure(self, head: HeadFacts) -> Measure:
        """Summed while recording."""
        if len(head.place.place.heads) < 2:
            return unknown("no other head of its layer was recorded")
        score = head.statistic("output_norm")
        if not np.isfinite(score):
            return unknown("the norms of outputs were not kept")
        return Measure(score, conditional=float("nan"))

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """‖o‖ of each row over the same mean."""
        found = head.numbers("output_norm")
        mean = head.total("output_norm") / head.rows
        if found is None or not mean > 0:
            return None
        values = found.values / (mean / max(measure.score, 1e-30))
        return _plain(head, found.first, found.last, values)


def _plain(head: HeadFacts, first: Array, last: Array, values: Array) -> RowValues:
    telling = _enough(head, first, _ENOUGH)
    if not telling.any():
        telling = np.ones(len(first), bool)
    return RowValues(first, last, values, telling, np.ones(len(first), bool), values)


def _enough(head: HeadFacts, rows: Array, least: int) -> Array:
    """Which rows see so many keys."""
    if head.reach is None:
        return np.ones(len(rows), bool)
    found: Array = head.reach.visible[rows - head.place.rows.start] >= least
    return found


def _purity(tops: Tops) -> Array:
    found: Array = np.square(tops.weights).sum(-1)
    return found


def _share_elsewhere(head: HeadFacts) -> float:
    """Of the rows whose heaviest key is no sink, those with a weight above 0.99."""
    tops = head.tops
    if tops is None:
        return float("nan")
    off = ~head.sinks.among(tops.keys[:, 0])
    return float((tops.weights[off, 0] > _PEAK).mean()) if off.any() else float("nan")
