"""When a head's numbers call for a look, and since when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.errors import InputError
from regard.monitor.sample import Sample
from regard.recording import Alarm, Limit

__all__ = ["Limits", "Watch"]

_KINDS = ("entropy collapse", "score growth", "inactive head")
_BROKEN = "scores not finite"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Limits:
    """What is too little or too much.

    entropy     normalised entropy below it is a collapse, in a head that was once at twice it: of
                1,024 keys 1.4 are effectively used (1024^0.05), and the softmax hardly moves any
                more. A head that was that sharp from the first sample on has not collapsed.
    max_score   QK-clip's customary τ. In bfloat16 neighbours are 0.5 apart at 100, so a weight is
                off by up to a factor of e^0.25 = 1.28.
    sink_mass   a head that leaves less than a twentieth of its mass to anything but the first
                token writes next to nothing: it is switched off.
    lasting     so many samples in a row, that one odd batch is no alarm

    None in place of a number: no such alarm. Scores that are NaN or infinite have no limit to move:
    they are an alarm in the first sample that has one.
    """

    entropy: float | None = 0.05
    max_score: float | None = 100.0
    sink_mass: float | None = 0.95
    lasting: int = 3

    def __post_init__(self) -> None:
        for name in ("entropy", "max_score", "sink_mass"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InputError(f"{name}={value!r}; give a number, or None for no such alarm")
        if self.lasting < 1:
            raise InputError(f"lasting={self.lasting!r}; give a number of samples ≥ 1")

    def by_statistic(self) -> dict[str, Limit]:
        """Those that are watched, as a recording keeps them."""
        found: dict[str, tuple[Literal["above", "below"], float | None]] = {
            "normalized_entropy": ("below", self.entropy),
            "max_score": ("above", self.max_score),
            "sink_mass": ("above", self.sink_mass),
        }
        return {n: Limit(side, float(v)) for n, (side, v) in found.items() if v is not None}


class Watch:
    """Looks at every sample; an alarm is given once for a head and a kind."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._runs: dict[tuple[str, str], tuple[int, Alarm]] = {}  # samples over the limit so far
        self._given: set[tuple[str, str]] = set()
        self._spread: set[str] = set()  # heads that once had entropy to lose

    def look(self, sample: Sample) -> list[Alarm]:
        """The alarms that this sample completes."""
        found: list[Alarm] = []
        for label, numbers in sample.heads():
            over = {alarm.kind: alarm for alarm in self._over(label, numbers, sample.step)}
            for kind in (*_KINDS, _BROKEN):
                key = kind, label
                if kind not in over:
                    self._runs.pop(key, None)
                    continue
                count, first = self._runs.get(key, (0, over[kind]))
                self._runs[key] = count + 1, first
                lasting = 1 if kind == _BROKEN else self.limits.lasting
                if count + 1 >= lasting and key not in self._given:
                    self._given.add(key)
                    found.append(first)
        return found

    def _over(self, label: str, numbers: Mapping[str, float], step: int) -> Iterator[Alarm]:
        """Which limits this head is over now."""
        limits, entropy = self.limits, numbers["normalized_entropy"]
        if limits.entropy is not None:
            if entropy >= 2 * limits.entropy:
                self._spread.add(label)
            if entropy < limits.entropy and label in self._spread:
                yield Alarm(_KINDS[0], label, step, "normalized_entropy", entropy, limits.entropy)
        largest = numbers["max_score"]
        if largest == math.inf:
            yield Alarm(_BROKEN, label, step, "max_score", largest, _LARGEST)
            return  # of such a head nothing else is known
        above = (("max_score", limits.max_score), ("sink_mass", limits.sink_mass))
        for kind, (statistic, limit) in zip(_KINDS[1:], above, strict=True):
            if limit is not None and numbers[statistic] > limit:
                yield Alarm(kind, label, step, statistic, numbers[statistic], limit)
