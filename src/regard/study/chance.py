"""Whether chance alone explains a head's number: a test over rows, from sums that every recording
keeps.

The hypothesis is that a row's weights fall on its visible keys without a preference. Of n rows,
whose shares lie in [0, 1] and are `chance` on average, a mean of `score` or more then has at most
the probability exp(−n·KL(score ‖ chance)), KL being that of two coins: Hoeffding 1963, theorem 1.
It holds for any distribution of weights and any number of independent rows.

Rows of one head are not independent. A head without a pattern scores tokens, so its rows of one
token after one token are one sample (`distinct`; of patterns of copies, rows of one token), and so
are the keys of one token: whether some tokens get more than others is held against how far the
other tokens of the same head lie apart (`tokens_apart`).
What a head of a model without training has whatever it reads, even or sharp rows, is no evidence of
anything learnt: `beyond_many` asks for one head that leaves its chance, of all that were recorded.

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
_LEAST_EVEN: Final = 0.5  # rows: tokens to which an even spread gives less are noise
_LEAST_LIFT: Final = 0.05  # a token that gets less counts as much: logarithms have no end
_LEAST_SPREAD: Final = 0.1  # of the logarithms: tokens that are alike make no noise news
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


def hoeffding(
    score: float, chance: float, rows: int, choices: int = 1, samples: int | None = None
) -> Trial:
    """Of so many rows, of which `samples` are independent; the number is the best of `choices`
    (Bonferroni)."""
    count = rows if samples is None else samples
    log_p = math.log(max(choices, 1)) - count * _divergence(score, chance)
    return Trial(rows, math.exp(min(log_p, 0.0)))


def distinct(tokens: Array | None, some: Array) -> int:
    """How many of the marked rows (R,) are independent: rows of the same `tokens` (R, n) are one;
    all of them where tokens are not known."""
    return int(np.count_nonzero(some) if tokens is None else len(np.unique(tokens[some], axis=0)))


def tokens_apart(lifts: Array, ids: Array, some: Array, others: Array) -> float:
    """The probability that tokens drawn from those of the keys `others` get as much as those of
    the keys `some`: Student's t of ln(received ÷ even share), a token being one sample.

    lifts   (keys, 2): what each key received, and what an even spread would give it
    ids     (keys,)
    """
    names, at = np.unique(ids, return_inverse=True)
    logs = []
    for keys in (some, others):
        got, even = (np.bincount(at[keys], part[keys], names.size) for part in lifts.T)
        known = even > (_LEAST_EVEN if keys is others else 0)
        logs.append(np.log(np.maximum(got[known] / even[known], _LEAST_LIFT)))
    few, many = logs
    if not few.size or many.size < 2:
        return 1.0
    spread = max(float(many.std(ddof=1)), _LEAST_SPREAD) * math.sqrt(1 / few.size + 1 / many.size)
    return _student(float(few.mean() - many.mean()) / spread, many.size - 1)


def _student(t: float, freedom: int) -> float:
    """P(T > t), by the normal deviate that is nearest (Wallace 1959)."""
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))
    return 0.5 * math.erfc(math.copysign(z, t) / math.sqrt(2))


def beyond_many(p: float, heads: int) -> bool:
    """Whether the best of so many heads leaves its chance (Bonferroni)."""
    return p * max(heads, 1) <= ALPHA


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
