"""Attention in numpy, one function per step, one named result per step.

Rows are tokens throughout: queries = x @ w_q. (The second note writes Q = W·X with tokens as
columns; that is the transpose of the same product.) The torch twin of this page is
`regard.engine.backends.dense`, and the tests hold the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.mask import Extent, Mask

Array: TypeAlias = NDArray[np.float64]


def project(x: Array, w: Array) -> Array:
    """(tokens, width) @ (width, d) -> (tokens, d): one learned view of every token."""
    return x @ w


def score(queries: Array, keys: Array) -> Array:
    """(queries, keys): how well each query matches each key, as a dot product."""
    return queries @ keys.T


def scale(scores: Array, d_k: int) -> Array:
    """Divide by √d_k, the spread that a dot product of d_k unit-variance terms has."""
    return scores / np.sqrt(d_k)


def mask_scores(scaled: Array, mask: Mask | None) -> Array:
    """−∞ wherever a query may not see a key."""
    if mask is None:
        return scaled
    L, S = scaled.shape
    visible: NDArray[np.bool_] = mask.allows(np.arange(L), np.arange(S), Extent(L, S))
    return np.where(visible, scaled, -np.inf)


def softmax(masked: Array) -> Array:
    """Over the keys (the last axis); a row that sees no key has no weights, only zeros."""
    peak = masked.max(axis=-1, keepdims=True)
    e = np.exp(masked - np.where(np.isfinite(peak), peak, 0.0))  # exp(−∞) = 0
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)


def context(weights: Array, values: Array) -> Array:
    """(queries, keys) @ (keys, d_v): each token's new vector, a weighted sum of values."""
    return weights @ values


@dataclass(frozen=True)
class Head:
    """One head, every intermediate by name, in the order it is computed."""

    w_q: Array  # (width, d_k)
    w_k: Array  # (width, d_k)
    w_v: Array  # (width, d_v)
    queries: Array  # (tokens, d_k)
    keys: Array  # (tokens, d_k)
    values: Array  # (tokens, d_v)
    scores: Array  # (tokens, tokens)
    scaled: Array  # (tokens, tokens)
    masked: Array  # (tokens, tokens), −∞ where hidden
    weights: Array  # (tokens, tokens), rows sum to 1
    context: Array  # (tokens, d_v)

    def as_dict(self) -> dict[str, Any]:
        """The same, as nested lists, for JSON; a hidden cell (−∞) is None there."""
        return {name: _listed(getattr(self, name)) for name in self.__dataclass_fields__}


def _listed(matrix: Array) -> list[list[float | None]]:
    return [[None if cell == -np.inf else cell for cell in row] for row in matrix.tolist()]


def attend(
    x: Array, w_q: Array, w_k: Array, w_v: Array, *, mask: Mask | None = None, scaled: bool = True
) -> Head:
    """All steps for one head. `scaled=False` leaves the division by √d_k out."""
    queries, keys, values = project(x, w_q), project(x, w_k), project(x, w_v)
    scores = score(queries, keys)
    divided = scale(scores, w_k.shape[1]) if scaled else scores
    masked = mask_scores(divided, mask)
    weights = softmax(masked)
    return Head(
        w_q=w_q, w_k=w_k, w_v=w_v, queries=queries, keys=keys, values=values, scores=scores,
        scaled=divided, masked=masked, weights=weights, context=context(weights, values),
    )  # fmt: skip
