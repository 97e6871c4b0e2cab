"""Whether chance alone explains a head's number: a test over rows, from sums that every recording
keeps.

The hypothesis is that a row's weights fall on its visible keys without a preference. Of n rows,
whose shares lie in [0, 1] and are `chance` on average, a mean of `score` or more then has at most
the probability exp(−n·KL(score ‖ chance)), KL being that of two coins: Hoeffding 1963, theorem 1.
It holds for any distribution of weights and any number of rows. Rows are taken as independent.

Whatever speaks of a row's shape (`uniform`, `sharp`) is tested against weights drawn evenly from
all that a row could have: a stick of length 1 broken at random places into one piece for each key.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from regard.recording.stores import Array

ALPHA: Final = (
    0.0005  # of a label; of the 14 labels of a text, 15 of a picture, together below 0.01
)
LEAST_TOKENS: Final = 16  # a shorter text shows nothing
LEAST_ROWS: Final = 8  # that could have done otherwise
LEAST_P: Final = 1e-6  # what is below is said to be below
HOEFFDING: Final = "Hoeffding's bound over rows"
_STICK: Final = math.pi**2 / 3 - 3  # × 1/n: the variance of a broken stick's entropy, about


def spelt_p(p: float) -> str:
    """2e-5, or < 1e-6: rows are not independent enough to tell less."""
    return "< 1e-6" if p < LEAST_P else f"{p:.2g}".replace("e-0", "e-")


class Trial(NamedTuple):
    """A head's number held against chance."""

    rows: int  # that could have done otherwise
    p: float  # the probability of such a number by chance, at most
    test: str = HOEFFDING
    least: int = LEAST_ROWS  # so many rows are needed

    @property
    def objection(self) -> str:
        """Why it is no evidence; "" where it is."""
        if self.rows < self.least:
            some = f"{self.rows} row{'s' if self.rows != 1 else ''} could have done otherwise"
            return f"{some}; {self.least} needed"
        if not self.p <= ALPHA:
            said = f"chance gives as much in {self.rows} rows with p = {spelt_p(self.p)}"
            return f"{said}; {ALPHA} needed"
        return ""


def hoeffding(score: float, chance: float, rows: int, choices: int = 1) -> Trial:
    """Of so many rows; the number is the best of `choices` (Bonferroni)."""
    log_p = math.log(max(choices, 1)) - rows * _divergence(score, chance)
    return Trial(rows, math.exp(min(log_p, 0.0)))


def _divergence(score: float, chance: float) -> float:
    """KL(score ‖ chance) of two coins where score is above chance, else 0: nothing to explain."""
    if not score > chance:
        return 0.0
    if chance <= 0:
        return math.inf
    kept = score * math.log(score / chance)
    left = (1 - score) * math.log((1 - score) / (1 - chance)) if score < 1 else 0.0
    return kept + left


def sign_test(hits: int, rows: int) -> Trial:
    """So many of the rows on one side, where half of them is chance."""
    return hoeffding(hits / max(rows, 1), 0.5, rows)._replace(test="sign test over rows")


def broken_stick(score: float, visible: Array, rows: int) -> Trial:
    """A mean of entropy ÷ log(visible keys) over so many rows, of which `visible` (n,) tells how
    many keys they see: a z-test against broken sticks, whose mean entropy is H(keys) − 1."""
    n = np.maximum(np.asarray(visible, np.float64), 2)
    harmonic = np.log(n) + np.euler_gamma + 1 / (2 * n) - 1 / (12 * n**2)
    mean, variance = (harmonic - 1) / np.log(n), _STICK / (n * np.log(n) ** 2)
    z = (score - float(mean.mean())) / math.sqrt(float(variance.mean()) / max(rows, 1))
    p = 0.5 * math.erfc(z / math.sqrt(2))
    return Trial(rows, p, "z-test over rows, against broken sticks")


def sharp_by_chance(visible: Array, peak: float) -> float:
    """How often the longest piece of a stick is above `peak` > ½, on average over (rows,)."""
    n = np.maximum(np.asarray(visible, np.float64), 1)
    return float(np.minimum(n * (1 - peak) ** (n - 1), 1).mean()) if n.size else 1.0
