"""Heads over many documents: which numbers lie apart from those of their layer.

Patterns are judged row by row, and rows of many documents are not kept together; what is merged are
numbers of heads. So over many documents a head is told by the statistic that sets it apart.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from regard.recording import STATISTICS, Merged
from regard.recording.measures import shown_kinds
from regard.recording.schema import place_label
from regard.recording.stores import Array
from regard.study.chance import LEAST_TOKENS
from regard.study.surprise import deviations
from regard.study.words import in_figures

_LEAST: Final = 3.0  # deviations
_PARKED: Final = 0.5  # on the first token: what such a head does with single keys is no news
_SENTENCES: Final = {
    "previous": "gives {} of its attention to the token before",
    "self": "gives {} of its attention to the token itself",
    "duplicate": "gives {} to earlier copies of the token, where there are any",
    "prefix": "gives {} to what followed earlier copies of the token, where there are any",
    "delimiter": "gives {} of its attention to punctuation and line breaks",
    "entropy": "spreads its rows to {} nats of entropy",
    "sharp": "looks at a single key in {} of its rows",
    "max_score": "reaches a score of {}",
    "output_norm": "writes {} times what its layer's heads write on average",
}
# The first token is where attention is parked: which head does so is no discovery.
_TELLING: Final = tuple(
    name for name, kind in shown_kinds({}).items() if kind.telling and name != "first"
)


class Outlier(NamedTuple):
    """A head that differs from its layer."""

    label: str
    statistic: str
    value: float
    median: float  # of the layer
    deviations: float
    at: tuple[int, int]  # layer, head

    @property
    def sentence(self) -> str:
        """What the head does, and what is usual in its layer."""
        value, usual = (in_figures(one) for one in (self.value, self.median))
        words = _SENTENCES.get(self.statistic, f"has {self.statistic} {{}}").format(value)
        return f"{self.label} {words}; its layer's median is {usual}"

    def as_dict(self) -> Any:
        """For JSON."""
        fields = {name: value for name, value in self._asdict().items() if name != "at"}
        return fields | {"sentence": self.sentence}


def outliers(merged: Merged, n: int = 5) -> list[Outlier]:
    """The n heads that differ most from their layers, each by what it differs in most. None where
    documents are so short that a row has hardly a choice."""
    best: dict[str, Outlier] = {}
    if merged.tokens < LEAST_TOKENS * max(merged.documents, 1):
        return []
    for stack in merged.stacks:
        parked = merged.grid("first", stack) >= _PARKED
        for statistic in _TELLING:
            for one in _found(merged.grid(statistic, stack), statistic, stack, merged.keys):
                known = best.get(one.label)
                if statistic == "sharp" and parked[one.at]:
                    continue
                if known is None or known.deviations < one.deviations:
                    best[one.label] = one
    return sorted(best.values(), key=lambda one: -one.deviations)[:n]


def _found(grid: Array, statistic: str, stack: str, keys: int) -> list[Outlier]:
    span = _range(grid, STATISTICS[statistic].span, keys)
    found = []
    for layer, row in enumerate(grid):
        away, middle = deviations(row, span)
        for head in np.flatnonzero(away >= _LEAST).tolist():
            label = f"{place_label(stack, layer)}H{head}"
            found.append(
                Outlier(
                    label, statistic, float(row[head]), middle, float(away[head]), (layer, head)
                )
            )
    return found


def _range(grid: Array, span: str, keys: int) -> float:
    """1 for masses, log(keys) for entropy, and for scores the spread over all heads."""
    if span == "entropy":
        return math.log(max(keys, 2))
    if span == "spread":
        known = grid[np.isfinite(grid)]
        return max(float(np.ptp(known)), 1.0) if known.size else 1.0
    return 1.0
