"""What is unusual: how far a head's number lies from those of its layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import numpy as np

from regard.recording.measures import shown_kinds
from regard.recording.prompt import PromptView
from regard.recording.recording import Recording
from regard.recording.schema import place_label
from regard.recording.statistics import STATISTICS
from regard.recording.stores import Array

_MAD: Final = 1.4826  # makes the median absolute deviation of a bell curve its standard deviation
_FLOOR: Final = 0.02  # of the statistic's range: a layer of equal heads makes noise no news
_LEAST: Final = 3.0  # deviations
# The first token stands for sinks: their mass is 0 up to a threshold, so half a layer would be a
# surprise.
_TELLING: Final = tuple(name for name, kind in shown_kinds({}).items() if kind.telling)


class Finding(NamedTuple):
    """A head that differs from its layer."""

    label: str
    statistic: str
    value: float
    median: float  # of the layer
    deviations: float


class HeadNumbers(Protocol):
    """One number for each head: of one text, or merged over many."""

    @property
    def stacks(self) -> Mapping[str, tuple[int, int]]:
        """Each stack's (layers, heads)."""
        ...

    def grid(self, statistic: str, stack: str | None = None) -> Array:
        """(layers, heads) of a statistic."""
        ...


def surprise(
    recording: Recording, statistic: str, stack: str | None = None, prompt: int = 0
) -> Array:
    """(layers, heads): |x − median| ÷ (1.4826·MAD + floor) within each layer; NaN where unknown.

    The floor is 2 % of the statistic's range: 1 for masses, log(keys) for entropy, and for scores
    the spread over all heads.
    """
    grid = recording.grid(statistic, stack, prompt)
    span = recording.statistic_kinds[statistic].span
    return _deviations(grid, _range(grid, span, _most_keys(recording.prompts[prompt])))


def most_surprising(recording: Recording, n: int = 3, prompt: int = 0) -> list[Finding]:
    """The n heads that differ most from their layers, each by what it differs in most."""
    if not recording.prompts:
        return []
    view = recording.prompts[prompt]
    return standing_out(view, _most_keys(view), n)


def standing_out(view: HeadNumbers, keys: int, n: int = 3) -> list[Finding]:
    """The same of any numbers for each head, where rows could see up to so many keys."""
    best: dict[str, Finding] = {}
    for stack in view.stacks:
        for statistic in _TELLING:
            for one in _findings(view.grid(statistic, stack), statistic, stack, keys):
                known = best.get(one.label)
                if known is None or known.deviations < one.deviations:
                    best[one.label] = one
    ranked = sorted(best.values(), key=lambda one: -one.deviations)
    return ranked[:n]


def _findings(grid: Array, statistic: str, stack: str, keys: int) -> list[Finding]:
    span = STATISTICS[statistic].span
    away, middle = _deviations(grid, _range(grid, span, keys)), _medians(grid)
    return [
        Finding(
            f"{place_label(stack, int(layer))}H{head}", statistic, float(grid[layer, head]),
            float(middle[layer]), float(away[layer, head]),
        )
        for layer, head in np.argwhere(away >= _LEAST)
    ]  # fmt: skip


def _range(grid: Array, span: str, keys: int) -> float:
    if span == "entropy":
        return math.log(max(keys, 2))
    if span == "spread":
        known = grid[np.isfinite(grid)]
        return max(float(np.ptp(known)), 1.0) if known.size else 1.0
    return 1.0


def _most_keys(prompt: PromptView) -> int:
    return max((place.keys for place in prompt.places.values()), default=0)


def _deviations(grid: Array, span: float) -> Array:
    away = np.abs(grid - _medians(grid)[:, None])
    return away / (_MAD * _medians(away)[:, None] + _FLOOR * span)


def _medians(grid: Array) -> Array:
    """(layers,): the middle of each layer's known numbers; NaN where there are none."""
    rows = [row[np.isfinite(row)] for row in grid]
    return np.array([np.median(row) if row.size else np.nan for row in rows])
