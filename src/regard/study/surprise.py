"""How far a head's number lies from those of its layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from regard.recording.stores import Array
from regard.study.finding import HeadStudy

_MAD: Final = 1.4826  # makes the median absolute deviation of a bell curve its standard deviation
_FLOOR: Final = 0.02  # of a number's range, 1: a layer of equal heads makes noise no news
_FEW: Final = 3  # a layer with fewer heads has no middle; its stack has


def surprises(studies: Sequence[HeadStudy]) -> dict[tuple[str, str], float]:
    """By head and pattern: |number − median| ÷ (1.4826·MAD + 0.02) among the heads of its layer,
    or among all of its stack where the layer has fewer than three. Unknown scores are left out."""
    found: dict[tuple[str, str], float] = {}
    for group in _groups(studies):
        for n, finding in enumerate(group[0].findings):
            scores = np.array([one.findings[n].compared for one in group])
            for one, away in zip(group, _deviations(scores), strict=True):
                if np.isfinite(away):
                    found[one.label, finding.pattern] = float(away)
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


def _deviations(scores: Array) -> Array:
    known = scores[np.isfinite(scores)]
    if not known.size:
        return scores
    middle = np.median(known)
    spread = _MAD * float(np.median(np.abs(known - middle))) + _FLOOR
    found: Array = np.abs(scores - middle) / spread
    return found
