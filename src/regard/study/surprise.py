"""How far a number lies from the others of its layer: |x − median| ÷ (1.4826·MAD + a floor)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from regard.recording.stores import Array
from regard.study.finding import HeadStudy

_MAD: Final = 1.4826  # makes the median absolute deviation of a bell curve its standard deviation
_FLOOR: Final = 0.02  # of a number's range: a layer of equal heads makes noise no news
_FEW: Final = 3  # a layer with fewer heads has no middle; its stack has


def deviations(numbers: Array, span: float = 1.0) -> tuple[Array, float]:
    """How far each lies from the middle, which comes with it; NaN where a number is not known.
    `span` is how far such numbers range."""
    known = numbers[np.isfinite(numbers)]
    middle = float(np.median(known)) if known.size else float("nan")
    away: Array = np.abs(numbers - middle)
    spread = _MAD * float(np.median(np.abs(known - middle))) if known.size else float("nan")
    return away / (spread + _FLOOR * span), middle


def surprises(studies: Sequence[HeadStudy]) -> dict[tuple[str, str], float]:
    """By head and pattern, among the heads of its layer, or among all of its stack where the layer
    has fewer than three. Unknown scores are left out."""
    found: dict[tuple[str, str], float] = {}
    for group in _groups(studies):
        numbers: dict[str, dict[str, float]] = {}  # by pattern, those of the heads that have it
        for one in group:
            for finding in one:
                numbers.setdefault(finding.pattern, {})[one.label] = finding.compared
        for pattern, each in numbers.items():
            away, _ = deviations(np.array(list(each.values())))
            for label, far in zip(each, away.tolist(), strict=True):
                if np.isfinite(far):
                    found[label, pattern] = far
    return found


def _groups(studies: Sequence[HeadStudy]) -> Iterable[list[HeadStudy]]:
    layers: dict[tuple[str, int], list[HeadStudy]] = {}
    for one in studies:
        layers.setdefault((one.stack, one.layer), []).append(one)
    small: dict[str, list[HeadStudy]] = {}
    for (stack, _), group in layers.items():
        if len(group) >= _FEW:
            yield group
        else:
            small.setdefault(stack, []).extend(group)
    yield from small.values()
