"""Attention: softmax(Q Kᵀ / √d_k) V, a function a step, every step by name. Read this first.

    x (…, tokens, width) → queries (…, L, d_k), keys (…, S, d_k), values (…, S, d_v) → output

This page is the definition. The lesson computes by it in numpy, `SelfAttention(…).steps(x)` and the
oracle of every kernel in torch, where autograd gives the gradients. Clarity over speed: it holds
L×S matrices, and everything else in this package is a faster way to what it says.

Rows are tokens throughout, so queries are x @ w_q. A text that writes Q = W·X has tokens as
columns: the transpose of the same product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any

from regard.arrays import cast, here, library, logsumexp, numbers, repeated, where
from regard.arrays import softmax as plain_softmax
from regard.mask import Mask
from regard.shapes import AttentionShape

if TYPE_CHECKING:
    from regard.score import Bias


def project(x: Any, w: Any) -> Any:
    """(…, tokens, width) @ (width, d) → (…, tokens, d): one learned view of every token. W_Q makes
    what a token asks, W_K what it is matched by, W_V what it gives."""
    return x @ w


def score(queries: Any, keys: Any) -> Any:
    """q·k → (…, L, S): large where query and key are long and point the same way."""
    return queries @ keys.swapaxes(-1, -2)


def scale(scores: Any, factor: float) -> Any:
    """Times 1/√d_k: dot products of d_k terms spread like √d_k, and where scores are far apart
    the gradient of their softmax vanishes."""
    return scores * factor


def cap(scaled: Any, limit: float | None) -> Any:
    """limit·tanh(score/limit): scores stay within ±limit."""
    return scaled if limit is None else limit * library(scaled).tanh(scaled / limit)


def bias(capped: Any, addend: Any) -> Any:
    """A number added to every score, such as −slope·distance; −∞ hides like a mask."""
    return capped + addend


def mask(biased: Any, visible: Any) -> Any:
    """−∞ where a query may not see a key, such as a later token."""
    return where(visible, biased, -inf)


def softmax(scores: Any) -> Any:
    """exp(score) / Σ exp(score) over the keys, the last axis: rows sum to 1. One that sees no key
    is 0, not NaN, in its derivative as well; one with a score of +∞ has no softmax: NaN."""
    return _shares_and_lse(scores)[0]


def weighted_sum(weights: Any, values: Any) -> Any:
    """(…, L, S) @ (…, S, d_v) → (…, L, d_v): values by their weights. W_V alone decides d_v."""
    return weights @ values


@dataclass(frozen=True)
class Steps:
    """Every intermediate, in the order it is computed; Hq only where there are heads."""

    queries: Any  # (…, Hq, L, d_k)
    keys: Any  # (…, Hq, S, d_k)   each key head repeated for its group of query heads
    values: Any  # (…, Hq, S, d_v)
    scores: Any  # (…, Hq, L, S)   q·k
    scaled: Any  # × 1/√d_k
    capped: Any  # cap·tanh(·/cap)
    biased: Any  # + bias
    visible: Any  # booleans: the mask allows it and the bias is not −∞
    masked: Any  # −∞ where not visible: the final scores
    lse: Any  # (…, Hq, L)      log Σ exp(masked), with the sink as one more key
    weights: Any  # (…, Hq, L, S)   exp(masked − lse); rows sum to 1 less the sink's share
    sink: Any  # (…, Hq, L)      the share of the sink, a key whose value is zero; 0 without one
    output: Any  # (…, Hq, L, d_v) weights @ values
    position: Any  # query i stands at key i + position, where distances are measured

    @property
    def context(self) -> Any:
        """The output, by the notes' other name: the contextual embeddings."""
        return self.output


def attend(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    factor: float | None = None,
    limit: float | None = None,
    rule: Bias | None = None,
    allowed: Mask | None = None,
    sink: Any = None,
    product: Any = score,
    position: Any = 0,
) -> Steps:
    """All steps of softmax(cap(factor·QKᵀ) + rule, masked) V, at the precision of the arrays.

    factor   1/√d_k by default                   rule     the bias
    limit    of the soft cap; no cap by default  allowed  the mask; all keys by default
    sink     (Hq,) the score of one more key, whose value is zero
    product  of queries and keys: the dot product by default
    """
    shape = AttentionShape.of(queries.shape, keys.shape, values.shape, dot=product is score)
    extent = shape.extent
    if shape.group > 1:
        keys, values = repeated(keys, shape.group, -3), repeated(values, shape.group, -3)
    i, j = numbers(0, extent.queries, queries), numbers(0, extent.keys, queries)

    scores = product(queries, keys)
    scaled = scale(scores, queries.shape[-1] ** -0.5 if factor is None else factor)
    capped = cap(scaled, limit)
    biased = bias(capped, 0.0 if rule is None else cast(rule.tile(i, j, extent), capped))
    visible = biased != -inf
    if allowed is not None:
        visible = here(allowed.allows(i, j, extent), queries) & visible
    masked = mask(biased, visible)
    shares, lse = _shares_and_lse(masked if sink is None else _with_sink(masked, sink))
    weights, rest = shares[..., : extent.keys], shares[..., extent.keys :].sum(-1)
    return Steps(
        queries, keys, values, scores, scaled, capped, biased, visible, masked, lse, weights, rest,
        weighted_sum(weights, values), position,
    )  # fmt: skip


def _with_sink(masked: Any, sink: Any) -> Any:
    """(…, H, L, S + 1): one more key, whose score is the head's sink (H,)."""
    xp = library(masked)
    column = xp.broadcast_to(sink[:, None, None], (*masked.shape[:-1], 1))
    return xp.concatenate((masked, column), -1)


def _shares_and_lse(scores: Any) -> tuple[Any, Any]:
    """The softmax and log Σ exp(score), both of rows that may see nothing."""
    empty = (scores == -inf).all(-1)
    filled = where(empty[..., None], 0.0, scores)
    lse = where(empty, -inf, logsumexp(filled))
    return where(empty[..., None], 0.0, plain_softmax(filled)), where(lse == inf, nan, lse)
