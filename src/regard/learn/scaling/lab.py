"""Why scores are divided by √d_k: what happens with and without it, measured at each d_k.

q and k are drawn fresh at every d_k with unit variance, as rows of sequences of `keys` tokens.
The upstream gradient g = ∂L/∂weights is drawn unit normal, and what reaches q is

    ∂L/∂q = c · Kᵀ (diag(p) − p pᵀ) g        c = 1, or 1/√d_k where the scores are divided

Its length is reported per row: the median, the 99th percentile and the share of dead rows. One
norm over all rows would hide that most rows vanish while a few explode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.attention import scale, score, softmax
from regard.errors import InputError

DEAD = 1e-3  # a row whose gradient is shorter teaches nothing; a divided row has about 0.27
MIN_ROWS = 100  # a 99th percentile of fewer is not one
MAX_CELLS = 2**22  # numbers in one array: 32 MiB, whatever d_k is
MAX_DRAWN = 2**30  # numbers drawn for q at one d_k, and weights: some minutes


STATISTICS = {
    "variance": "over all scores",
    "largest_weight": "median over rows",
    "entropy": "mean over rows, nats",
    "gradient_median": "median over rows",
    "gradient_p99": "99th percentile over rows",
    "dead": "share of rows",
    "gradient_rms": "root mean square over rows",
}


@dataclass(frozen=True)
class Side:
    """One d_k, with or without the division."""

    variance: float  # of the scores that enter the softmax
    largest_weight: float  # median over the rows
    entropy: float  # mean over the rows, nats
    gradient_median: float
    gradient_p99: float
    dead: float  # share of rows whose gradient is below DEAD
    gradient_rms: float  # the single norm that misleads; never shown alone


@dataclass(frozen=True)
class Reading:
    """One d_k, both ways, from the same q and k."""

    d_k: int
    raw: Side
    scaled: Side

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        return asdict(self)


def powers_of_two(largest: int) -> tuple[int, ...]:
    """1, 2, 4 … up to `largest`, which closes the list even where it is no power of two."""
    if largest < 1:
        raise InputError(f"the largest d_k must be at least 1; got {largest}")
    powers = tuple(2**i for i in range(largest.bit_length()))
    return powers if powers[-1] == largest else (*powers, largest)


def measure(
    d_ks: Sequence[int], *, keys: int = 16, rows: int = 4096, seed: int = 0
) -> Iterator[Reading]:
    """One reading per d_k. A d_k reads the same whichever others are measured with it."""
    _check(d_ks, keys, rows, seed)
    return (_read(d_k, keys, rows, seed) for d_k in d_ks)


def _check(d_ks: Sequence[int], keys: int, rows: int, seed: int) -> None:
    if not d_ks or min(d_ks) < 1:
        raise InputError(f"d_k must be a whole number of 1 or more; got {list(d_ks)}")
    if keys < 2:
        raise InputError(f"a softmax over {keys} keys has no choice to make; give at least 2 keys")
    if keys * max(keys, *d_ks) > MAX_CELLS:
        raise InputError(
            f"{keys} keys at d_k = {max(d_ks)} is more than this lab draws at once; "
            f"keep keys × d_k and keys × keys within {MAX_CELLS:,}"
        )
    if rows < MIN_ROWS:
        raise InputError(f"a 99th percentile needs at least {MIN_ROWS} rows; got {rows}")
    if rows * max(keys, *d_ks) > MAX_DRAWN:
        raise InputError(
            f"{rows} rows over {keys} keys at d_k = {max(d_ks)} take too long here; keep "
            f"rows × keys and rows × d_k within {MAX_DRAWN:,}"
        )
    if seed < 0:
        raise InputError(f"a seed is a whole number of 0 or more; got {seed}")


def _read(d_k: int, keys: int, rows: int, seed: int) -> Reading:
    rng = np.random.default_rng([seed, d_k])
    raw, scaled = _Tally(), _Tally()
    left = -(-rows // keys)  # sequences of `keys` tokens that are still to be drawn
    while left > 0:
        group = min(left, max(1, MAX_CELLS // (keys * max(keys, d_k))))
        queries = rng.standard_normal((group, keys, d_k))
        keyed = rng.standard_normal((group, keys, d_k))
        upstream = rng.standard_normal((group, keys, keys))
        scores = queries @ keyed.transpose(0, 2, 1)
        raw.add(scores, upstream, keyed, 1.0)
        scaled.add(scores, upstream, keyed, 1 / np.sqrt(d_k))
        left -= group
    return Reading(d_k, raw.side(rows), scaled.side(rows))


class _Tally:
    """Per-row figures of the chunks drawn so far."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Array]] = {}

    def add(self, scores: Array, upstream: Array, keyed: Array, factor: float) -> None:
        """One chunk: (sequences, queries, keys) scores and the keys they came from."""
        x = scores * factor
        gradient, weights = gradient_at_query(x, upstream, keyed, factor)
        shifted = x - x.max(axis=-1, keepdims=True)
        log_weights = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        self._keep("mean", x.mean(axis=-1))
        self._keep("square", (x * x).mean(axis=-1))
        self._keep("largest", weights.max(axis=-1))
        self._keep("entropy", -(weights * log_weights).sum(axis=-1))
        self._keep("gradient", np.linalg.norm(gradient, axis=-1))

    def _keep(self, name: str, per_row: Array) -> None:
        self.columns.setdefault(name, []).append(per_row.ravel())

    def side(self, rows: int) -> Side:
        """The figures over exactly `rows` rows."""
        column = {name: np.concatenate(parts)[:rows] for name, parts in self.columns.items()}
        gradient = column["gradient"]
        return Side(
            variance=float(column["square"].mean() - column["mean"].mean() ** 2),
            largest_weight=float(np.median(column["largest"])),
            entropy=float(column["entropy"].mean()),
            gradient_median=float(np.median(gradient)),
            gradient_p99=float(np.quantile(gradient, 0.99)),
            dead=float((gradient < DEAD).mean()),
            gradient_rms=float(np.sqrt((gradient**2).mean())),
        )


def gradient_at_query(x: Array, upstream: Array, keys: Array, factor: float) -> tuple[Array, Array]:
    """∂L/∂q for scores x = factor · q Kᵀ and ∂L/∂weights = upstream; and the weights.

    The Jacobian of softmax ignores a constant added to g. Taking g's value at the largest weight
    off first keeps what is left of a saturated row, which 1 − p ≈ 0 would round away.
    """
    weights = softmax(x)
    peak = weights.argmax(axis=-1)[..., None]
    g = upstream - np.take_along_axis(upstream, peak, axis=-1)
    at_scores = weights * (g - (weights * g).sum(axis=-1, keepdims=True))
    return factor * (at_scores @ keys), weights


@dataclass(frozen=True)
class Temperature:
    """The first note's example, one way: what the softmax sees, its weights, its slope at q·k."""

    scores: tuple[float, ...]
    weights: tuple[float, ...]
    slope: float  # ∂weight₁/∂(q·k₁), the factor 1/√d_k included


def temperature() -> tuple[Temperature, Temperature]:
    """q = [2 3 4 1] against k₁ = [1 0 1 0] and k₂ = [0 1 0 1]: as it is, and divided by √4."""
    query = np.array([[2.0, 3, 4, 1]])
    keys = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]])
    scores = score(query, keys)
    return _temper(scores[0], 1.0), _temper(scale(scores, 4**-0.5)[0], 0.5)


def _temper(scores: Array, factor: float) -> Temperature:
    first, second = (float(w) for w in softmax(scores[None])[0])
    return Temperature(tuple(scores.tolist()), (first, second), factor * first * second)
