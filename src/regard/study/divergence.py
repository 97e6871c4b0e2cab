"""How far apart two distributions are: the Jensen-Shannon distance, 0 for equal ones, 1 for
distributions that share nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from regard.recording.stores import Array


def js_distance(p: ArrayLike, q: ArrayLike, apart: ArrayLike = 0.0) -> Array:
    """√JSD in bits along the last axis: p and q (…, n).

    `apart` (…,) is mass of either side on things that the other side does not have, in all.
    """
    left, right = np.asarray(p, np.float64), np.asarray(q, np.float64)
    middle = (left + right) / 2
    bits = (_relative(left, middle) + _relative(right, middle)).sum(-1) / 2
    return np.sqrt(np.clip(bits + np.asarray(apart, np.float64) / 2, 0.0, 1.0))


def js_of_masses(p: ArrayLike, q: ArrayLike) -> float:
    """The same of masses that do not add up to 1, compared as shares."""
    left, right = np.asarray(p, np.float64), np.asarray(q, np.float64)
    sums = left.sum(), right.sum()
    if not (sums[0] > 0 and sums[1] > 0):
        return 0.0 if sums[0] == sums[1] else 1.0
    return float(js_distance(left / sums[0], right / sums[1]))


def _relative(p: Array, middle: Array) -> Array:
    """p log₂(p ÷ middle), 0 where p is."""
    some = p > 0
    ratio = np.divide(p, middle, out=np.ones_like(p), where=some)
    found: Array = p * np.log2(ratio)
    return found
