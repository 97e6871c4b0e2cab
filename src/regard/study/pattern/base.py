"""What a pattern is: a number for a head, what chance would give, and the rows that show it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from regard.recording.stores import Array
from regard.study.chance import Trial, distinct, hoeffding
from regard.study.facts import HeadFacts, RowNumbers

LEAST_NON_SINK: Final = 0.1  # renormalising what is left of a sink head invents patterns
_TRIVIAL: Final = 0.5  # a row that chance alone explains so far shows nothing


@dataclass(frozen=True)
class Measure:
    """A pattern's number for one head."""

    score: float
    chance: float = math.nan  # what an even spread over the visible keys would give
    rest: float | None = None  # the score without sink keys; None: the same
    conditional: float | None = None  # of what is not on sinks; None: rest ÷ non-sink mass
    detail: Mapping[str, Any] = field(default_factory=dict)
    trial: Trial | None = None  # the score held against chance; None: there is none
    non_sink: float | None = None  # mass outside sinks in the rows it is about; None: in all rows
    compared: float | None = None  # what is compared with other heads; None: the score
    objection: str = ""  # why no label is given, whatever the score
    unknown: str = ""  # why there is no score
    by_tokens: float = 0.0  # the probability that tokens are preferred so far by chance
    is_exact: bool = False  # to rounding, which no weights are by chance

    @property
    def apart(self) -> float:
        """The score without sink keys, by which labels are given."""
        return self.score if self.rest is None else self.rest


def unknown(why: str) -> Measure:
    """No number, and why."""
    return Measure(math.nan, unknown=why)


class RowValues(NamedTuple):
    """A pattern's number in single rows (or bins of rows first … last)."""

    first: Array
    last: Array
    values: Array
    telling: Array  # booleans: rows it is about, and that could have done otherwise
    known: Array  # booleans: the value is exact; else at least so much
    excess: Array  # what chance does not explain of it: the best rows are those with most


class _Odds(NamedTuple):
    """What an even spread would give the rows that a pattern is about."""

    rows: int
    chance: float  # the mean over them
    sure: int  # rows that see keys of the pattern only
    free: int  # rows that see keys of the pattern and others
    free_chance: float  # the mean over these
    samples: int  # … of which so many are independent


class Pattern(ABC):
    """One line of the table of patterns."""

    name: str
    threshold: float
    needs_rest: ClassVar[bool] = True  # whether a label needs mass outside sinks
    # … and sinks to be known; not where so high a number cannot come from a few keys
    needs_sinks: ClassVar[bool] = True
    lower: ClassVar[bool] = False  # whether a low number is the finding
    is_shape: ClassVar[bool] = False  # of rows, wherever they look: no evidence of anything learnt

    @abstractmethod
    def measure(self, head: HeadFacts) -> Measure:
        """The head's number."""

    @abstractmethod
    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """Its rows' numbers; None where single rows are not known."""

    def members(self, head: HeadFacts, measure: Measure, row: int) -> Array | None:
        """(keys,) booleans: whose weights make up the row's number; None where it is no mass."""
        return None

    def objection(self, head: HeadFacts, measure: Measure) -> str:
        """Why the label is not given; "" where it is."""
        if measure.unknown or "forced" in measure.detail:
            return measure.unknown
        if not self.passes(measure):
            return self._missed(measure)
        non_sink = head.non_sink if measure.non_sink is None else measure.non_sink
        lack = self._lacks_rest(non_sink) if self.needs_rest else ""
        return lack or measure.objection or (measure.trial.objection if measure.trial else "")

    def undecided(self, head: HeadFacts, measure: Measure) -> bool:
        """Whether the label is not known: the score is not, or the sinks it has to leave out."""
        needs = self.needs_rest and self.needs_sinks and measure.non_sink is None
        is_blind = needs and math.isnan(head.non_sink) and self.passes(measure)
        return bool(measure.unknown) or is_blind

    def _lacks_rest(self, non_sink: float) -> str:
        """Too little mass outside sinks, or nobody knows how much where that matters."""
        if non_sink >= LEAST_NON_SINK or (math.isnan(non_sink) and not self.needs_sinks):
            return ""
        some = "nobody knows how much" if math.isnan(non_sink) else f"{non_sink:.3g}"
        return f"{some} of the mass is not on sinks; {LEAST_NON_SINK} needed"

    def _missed(self, measure: Measure) -> str:
        """By how much."""
        if self.lower:
            return f"{measure.score:.2g} is above the threshold of {self.threshold:g}"
        less = "" if math.isnan(measure.chance) else f" less chance {measure.chance:.2g}"
        sinks = " without sinks" if measure.apart < measure.score else ""
        return f"{measure.apart:.2g}{sinks}{less} is below the threshold of {self.threshold:g}"

    def passes(self, measure: Measure) -> bool:
        """Whether the number is high (or low) enough, chance taken off."""
        if self.lower:
            return measure.apart <= self.threshold
        chance = 0.0 if math.isnan(measure.chance) else measure.chance
        return measure.apart - chance >= self.threshold

    def holds(self, head: HeadFacts) -> bool:
        """Whether a head has the label."""
        found: bool = head.own(
            ("holds", self.name), lambda: not self.objection(head, self.measure(head))
        )
        return found


def beyond_chance(score: float, chance: float) -> float:
    """(score − chance) ÷ (1 − chance): rows that chance explains wholly fall out of both."""
    if math.isnan(chance):
        return score
    return max(score - chance, 0.0) / (1 - chance) if chance < 1 else 0.0


class OfWhatIsLeft(Pattern):
    """A pattern of so many keys that its threshold is a share of what chance leaves over."""

    threshold = 0.5  # of many keys: more is asked than of one

    def passes(self, measure: Measure) -> bool:
        """Whether it takes so much of what chance leaves over."""
        return beyond_chance(measure.apart, measure.chance) >= self.threshold

    def _missed(self, measure: Measure) -> str:
        share = beyond_chance(measure.apart, measure.chance)
        beyond = "" if math.isnan(measure.chance) else " of what chance leaves over"
        return f"{share:.2g}{beyond} is below the threshold of {self.threshold:g}"


class MassPattern(Pattern):
    """A pattern that is mass on some of the keys of each row."""

    row_context: ClassVar[int] = 2  # rows are one sample where so many tokens up to theirs agree

    @abstractmethod
    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """(R,): how many of its keys each row sees; None where masks do not tell."""

    @abstractmethod
    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """Whether each key belongs to the pattern of its row; rows and keys broadcast."""

    def eligible(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array:
        """(R,) booleans: the rows the pattern is about."""
        return np.ones(len(head.place.rows), bool)

    def chances(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """(R,): what an even spread would give each row; NaN where it sees nothing."""
        counts, reach = self.counts(head, detail), head.reach
        if counts is None or reach is None:
            return None
        visible = reach.visible
        return np.where(visible > 0, counts / np.maximum(visible, 1), np.nan)

    def chance(self, head: HeadFacts, detail: Mapping[str, Any]) -> float:
        """The mean over the rows it is about."""
        return self._odds(head, detail, None).chance

    def trial(
        self,
        head: HeadFacts,
        detail: Mapping[str, Any],
        score: float,
        *,
        choices: int = 1,
        among: Array | None = None,
    ) -> Trial:
        """The score, a mean over the rows it is about (`among` those marked, (R,)), against chance;
        over those of them that see keys of the pattern and others. Where masks do not tell, chance
        is taken as one half."""
        odds = self._odds(head, detail, among)
        mean = (score * odds.rows - odds.sure) / max(odds.free, 1)
        share = min(max(mean, 0.0), 1.0)
        return hoeffding(share, odds.free_chance, odds.free, choices, odds.samples)

    def _odds(self, head: HeadFacts, detail: Mapping[str, Any], among: Array | None) -> _Odds:
        if among is not None:
            return self._counted_odds(head, detail, among)
        key = "odds", self.name, repr(detail)
        found: _Odds = head.once(key, lambda: self._counted_odds(head, detail, None))
        return found

    def _counted_odds(
        self, head: HeadFacts, detail: Mapping[str, Any], among: Array | None
    ) -> _Odds:
        some, chances = self.eligible(head, detail), self.chances(head, detail)
        some = some if among is None else some & among
        if chances is None:
            count = int(np.count_nonzero(some))
            return _Odds(count, math.nan, 0, count, 0.5, self._samples(head, some))
        some = some & np.isfinite(chances)
        free = some & (chances > 0) & (chances < 1)
        rows, sure, count = (int(np.count_nonzero(m)) for m in (some, some & (chances == 1), free))
        means = [float(chances[m].mean()) if m.any() else math.nan for m in (some, free)]
        samples = self._samples(head, free)
        return _Odds(rows, means[0], sure, count, means[1], samples)

    def _samples(self, head: HeadFacts, some: Array) -> int:
        tokens, count = head.place.row_tokens, self.row_context
        return distinct(tokens[:, -count:] if count and tokens is not None else None, some)

    def members(self, head: HeadFacts, measure: Measure, row: int) -> Array | None:
        """Those that match."""
        keys = np.arange(head.place.place.keys)
        return self.match(head, measure.detail, np.array(row), keys)

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """From the heaviest keys of each row: all of the mass, or at least so much."""
        tops = head.tops
        if tops is None:
            return None
        hits = self.match(head, measure.detail, tops.rows[:, None], tops.keys) & (tops.keys >= 0)
        values = np.where(hits, tops.weights, 0).sum(-1)
        at = tops.rows - head.place.rows.start
        known = tops.weights.sum(-1) > 1 - 1e-4
        counts = self.counts(head, measure.detail)
        if counts is not None:
            known |= hits.sum(-1) >= counts[at]
        found = RowNumbers(tops.rows, tops.rows, values)
        return self.judged_rows(head, measure, found, known)

    def judged_rows(
        self, head: HeadFacts, measure: Measure, found: RowNumbers, known: Array
    ) -> RowValues:
        """Rows with what chance explains of each taken off."""
        first, last, values = found
        at = first - head.place.rows.start
        eligible = self.eligible(head, measure.detail)[at]
        chances = self.chances(head, measure.detail)
        chance = np.zeros(len(at)) if chances is None else np.nan_to_num(chances[at], nan=1.0)
        counts = self.counts(head, measure.detail)
        telling = eligible & (chance < _TRIVIAL)
        telling &= True if counts is None else counts[at] > 0
        return RowValues(first, last, values, telling, known, values - chance)
