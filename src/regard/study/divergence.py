"""How far apart two distributions are: the Jensen-Shannon distance, 0 for equal ones, 1 for
distributions that share nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from regard.divergences import row_divergence
from regard.recording.stores import Array


def js_distance(p: ArrayLike, q: ArrayLike, apart: ArrayLike = 0.0) -> Array:
    """√JSD in bits along the last axis: p and q (…, n).

    `apart` (…,) is mass of either side on things that the other side does not have, in all.
    """
    left, right = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(q, np.float64))
    alone = np.broadcast_to(np.asarray(apart, np.float64), left.shape[:-1])[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.concatenate([left, alone], -1))
        other = np.log(np.concatenate([right, np.zeros_like(alone)], -1))
        nats = row_divergence("js", one[..., None, :], other[..., None, :])[..., 0]
    return np.sqrt(np.clip(nats / np.log(2), 0.0, 1.0))


def js_of_masses(p: ArrayLike, q: ArrayLike) -> float:
    """The same of masses that do not add up to 1, compared as shares."""
    left, right = np.asarray(p, np.float64), np.asarray(q, np.float64)
    sums = left.sum(), right.sum()
    if not (sums[0] > 0 and sums[1] > 0):
        return 0.0 if sums[0] == sums[1] else 1.0
    return float(js_distance(left / sums[0], right / sums[1]))
