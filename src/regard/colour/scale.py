"""From values to shares of a scale, its ticks, and the words that name it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Scale:
    """`low` is the first colour and `high` the last; what lies beyond has the end's."""

    name: str
    low: float
    high: float
    is_log: bool = False

    def shares(self, values: ArrayLike) -> NDArray[np.float64]:
        """0 … 1 between the ends; NaN stays NaN."""
        given = np.asarray(values, np.float64)
        if self.is_log:
            with np.errstate(divide="ignore"):  # nothing at all lies below every scale
                given = np.log(np.maximum(given, 0.0))
        low, high = (math.log(end) if self.is_log else end for end in (self.low, self.high))
        if not high > low:
            return np.where(np.isnan(given), np.nan, np.where(given > low, 1.0, 0.0))
        return np.clip((given - low) / (high - low), 0.0, 1.0)

    def ticks(self) -> dict[float, str]:
        """Share → text. The ends of a log scale stand for all that lies beyond them."""
        if not self.is_log:
            values = steps(self.low, self.high, 6)
            return dict(zip(self.shares(values).tolist(), map(short, values), strict=True))
        first, last = round(math.log10(self.low)), math.floor(math.log10(self.high / 2))
        texts = {10.0**n: short(10.0**n) for n in range(first, last + 1)}
        texts |= {self.low: f"≤ {short(self.low)}", self.high: f"≥ {short(self.high)}"}
        return dict(zip(self.shares(list(texts)).tolist(), texts.values(), strict=True))

    def __str__(self) -> str:
        kind = "log" if self.is_log else "linear"
        return f"{self.name}, {kind} {short(self.low)}–{short(self.high)}"


# How many times more than if a row looked at all its keys alike.
TIMES_UNIFORM = Scale("× even share", 0.1, 100.0, is_log=True)


def times_uniform_of(keys: int) -> Scale:
    """The same for rows of at most so many keys, where all weight on one key is × keys: few keys
    have all colours too, and the name says so."""
    if keys >= TIMES_UNIFORM.high:
        return TIMES_UNIFORM
    top = max(keys, 2)
    return replace(TIMES_UNIFORM, name=f"{TIMES_UNIFORM.name} (at most {top} keys)", high=top)


def linear(name: str, values: ArrayLike) -> Scale:
    """From the smallest of the values, or from 0 where that is not far, to their largest."""
    given = np.asarray(values, np.float64)
    finite = given[np.isfinite(given)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return Scale(name, 0.0 if 0.0 <= low < high / 4 else low, high)


def steps(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, at most so many and evenly spaced: 0, 50, 100 …"""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    rough = span / max(most - 1, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10, 20) if unit * m >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def short(value: float) -> str:
    """Three significant digits, without zeros that say nothing: 0.1, 100, 1.3e-05."""
    text = f"{value:.3g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e6 else text
