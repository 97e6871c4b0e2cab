"""Patterns of a row's shape, whichever keys it falls on: even, sharp, saturated, next to none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from regard.recording.sinks import Tops
from regard.recording.stores import Array
from regard.study.chance import (
    LEAST_ROWS,
    Trial,
    broken_stick,
    hoeffding,
    sharp_by_chance,
    sign_test,
)
from regard.study.facts import HeadFacts, PlaceFacts
from regard.study.pattern.base import Measure, Pattern, RowValues, unknown

_PEAK: Final = 0.99
_IMPURITY: Final = 0.01  # 1 − Σp²: gradients of a softmax are of its size
_PURE: Final = 1 - _IMPURITY / 2  # the peak of such a row
_HAZARD: Final = 100.0  # the score at which QK-clip steps in
_EXACT: Final = 1e-8  # of the entropy ÷ its largest, in sums of all rows
_EXACT_ROW: Final = 1e-6  # … of one, in float32
_ENOUGH: Final = 16  # keys: a row that sees fewer is even, or sharp, by itself
_NO_TOPS: Final = "the heaviest keys were not kept"


class OfShape(Pattern):
    """Whatever a head looks at: weights before any training have a shape, too."""

    is_shape: ClassVar[bool] = True


class Uniform(OfShape):
    """Mean entropy as a share of the largest possible, log(visible keys). A head that stays within
    a neighbourhood is even there, which says less."""

    name = "uniform"
    threshold = 0.95
    needs_rest: ClassVar[bool] = False

    def __init__(self, near: Sequence[Pattern]) -> None:
        self._near = near

    def measure(self, head: HeadFacts) -> Measure:
        """Summed while recording."""
        score = head.statistic("normalized_entropy")
        if not np.isfinite(score):
            return unknown("the entropy was not kept")
        is_local = score >= self.threshold and any(one.holds(head) for one in self._near)
        trial = broken_stick(score, _several(head), int(head.total("normalized_rows")))
        better = "a sharper label says it" if is_local else ""
        return Measure(
            score, conditional=float("nan"), trial=trial, objection=better,
            is_exact=_is_exact(head, score),
        )  # fmt: skip

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """Entropy ÷ log(visible keys)."""
        found = head.numbers("entropy")
        if found is None or head.reach is None:
            return None
        visible = head.reach.visible[(found.first + found.last) // 2 - head.place.rows.start]
        values = found.values / np.log(np.maximum(visible, 2))
        return _plain(head, found.first, found.last, values)


class Sharp(OfShape):
    """The share of rows with one weight above 0.99. Sinks and previous-token heads do this in
    good health; rows on a sink, or on the first token, do not count towards the label."""

    name = "sharp"
    threshold = 0.5

    def measure(self, head: HeadFacts) -> Measure:
        """Counted while recording; of rows whose heaviest key is no sink, from the lists."""
        score = head.statistic("sharp")
        if not np.isfinite(score):
            return unknown("the peaks were not kept")
        return Measure(
            score, rest=_share_off_sinks(head), conditional=_share_elsewhere(head),
            trial=hoeffding(score, self._chance(head), int(head.rows)),
            is_exact=_is_exact(head, head.statistic("normalized_entropy")),
        )  # fmt: skip

    def _chance(self, head: HeadFacts) -> float:
        made: float = head.once(self.name, lambda: sharp_by_chance(_visible(head), _PEAK))
        return made

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """The heaviest weight of each row."""
        found = head.numbers("peak")
        return None if found is None else _plain(head, *found)


class Saturated(OfShape):
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
        if score >= _HAZARD and np.count_nonzero(some) < LEAST_ROWS <= head.rows:
            every = head.place.place.top_every
            return unknown(f"the heaviest keys are kept of one row in {every} in this recording")
        stuck = _purity(tops) > 1 - _IMPURITY
        off = ~head.sinks.among(tops.keys[:, 0])
        share = float((stuck & off)[some].mean()) if some.any() else 0.0
        safe = f"its largest score is {score:.3g}, below {_HAZARD:g}" if score < _HAZARD else ""
        kept = some & off
        conditional = float(stuck[kept].mean()) if kept.any() else float("nan")
        trial = hoeffding(share, self._chance(head), int(np.count_nonzero(some)))
        detail = {"max_score": score}
        return Measure(share, conditional=conditional, detail=detail, objection=safe, trial=trial)

    def _chance(self, head: HeadFacts) -> float:
        seen = np.full(1, 2) if head.reach is None else _several(head)
        made: float = head.once(self.name, lambda: sharp_by_chance(seen, _PURE))
        return made

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """Σp² of each row."""
        tops = head.tops
        return None if tops is None else _plain(head, tops.rows, tops.rows, _purity(tops))


class Inactive(OfShape):
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
        trial = _below_layer(head)
        if score <= self.threshold and trial.rows < LEAST_ROWS <= head.rows:
            return unknown(f"rows are binned by {head.place.place.row_bin} in this recording")
        return Measure(score, conditional=float("nan"), trial=trial)

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


def _is_exact(head: HeadFacts, mean: float) -> bool:
    """Whether the rows are even, or single, to rounding."""
    if min(abs(mean), abs(1 - mean)) < _EXACT:
        return True
    found, reach = head.numbers("entropy"), head.reach
    if found is None or reach is None or not np.array_equal(found.first, found.last):
        return False
    visible = reach.visible[found.first - head.place.rows.start]
    share = found.values[visible > 1] / np.log(visible[visible > 1])
    return bool((np.minimum(abs(share), abs(1 - share)) < _EXACT_ROW).all())


def _enough(head: HeadFacts, rows: Array, least: int) -> Array:
    """Which rows see so many keys."""
    if head.reach is None:
        return np.ones(len(rows), bool)
    found: Array = head.reach.visible[rows - head.place.rows.start] >= least
    return found


def _visible(head: HeadFacts) -> Array:
    """(n,): how many keys the rows see; two where masks do not tell, which is nearest to sharp."""
    if head.reach is None:
        return np.full(1, 2)
    seen = head.reach.visible
    found: Array = seen[seen > 0]
    return found


def _several(head: HeadFacts) -> Array:
    """(n,): the same of rows that see more than one; all keys where masks do not tell."""
    if head.reach is None:
        return np.full(1, head.place.place.keys)
    seen = _visible(head)
    found: Array = seen[seen > 1]
    return found if found.size else np.full(1, 2)


def _below_layer(head: HeadFacts) -> Trial:
    """Rows, or bins of rows, in which the head writes less than its layer's heads on average."""
    every = head.place.once("output_norm by row", lambda: _norms(head.place))
    if every is None:
        return Trial(0, 1.0)
    less = every[head.slot] < every.mean(0)
    return sign_test(int(np.count_nonzero(less)), less.size)


def _norms(place: PlaceFacts) -> Array | None:
    """(H, n): ‖o‖ of each row, or bin of rows."""
    found = [one.numbers("output_norm") for one in place.heads()]
    return np.stack([one.values for one in found if one is not None]) if None not in found else None


def _purity(tops: Tops) -> Array:
    found: Array = np.square(tops.weights).sum(-1)
    return found


def _share_off_sinks(head: HeadFacts) -> float | None:
    """Of all rows, those with a weight above 0.99 on a key that is neither a sink nor the first."""
    tops = head.tops
    if tops is None:
        return None
    best = tops.keys[:, 0]
    off = ~head.sinks.among(best) & (best != 0)
    return float(((tops.weights[:, 0] > _PEAK) & off).mean()) if best.size else 0.0


def _share_elsewhere(head: HeadFacts) -> float:
    """Of the rows whose heaviest key is no sink, those with a weight above 0.99."""
    tops = head.tops
    if tops is None:
        return float("nan")
    off = ~head.sinks.among(tops.keys[:, 0])
    return float((tops.weights[off, 0] > _PEAK).mean()) if off.any() else float("nan")
