"""Scores of keys (…, Hkv, S), larger = more worth keeping. p_ij is the weight of query i on key j,
G the query heads that share a key head, L the queries and S the keys of a causal prompt.

    h2o        Σ_{h∈G} Σ_i p_ij                            Zhang et al. 2023, accumulated attention
    observed   mean_{h∈G} Σ_i p_ij / |{i that may see j}|  kvpress, ObservedAttentionPress
    snapkv     pool_j mean_{h∈G} mean_{i > L−w} p_ij       Li et al. 2024; the last w keys have
                                                           1 more than the largest
    tova       mean_h p_Lj                                 Oren et al. 2024, the same for all heads
    kvzip      max_{h∈G} max_i p_ij                        Kim et al. 2025, of the pass that repeats
                                                           the context
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from regard.arrays import amax, filled, library
from regard.errors import InputError, ShapeError
from regard.summary.columns import over_group


class Receiving(Protocol):
    """What knows the weights that keys received: a `regard.Attention`, or a recorded layer."""

    def received(self, queries: Any = ..., *, groups: Any = ..., how: Any = ...) -> Any:
        """(…, Hq, S), or (…, Hkv, S) with `groups`."""


def h2o(a: Receiving) -> Any:
    """(…, Hkv, S): the attention accumulated over all queries (heavy hitters)."""
    return a.received(groups="sum")


def observed(a: Receiving) -> Any:
    """(…, Hkv, S): the mean weight that a key received from the queries that may see it."""
    return a.received(how="mean", groups="mean")


def tova(a: Receiving) -> Any:
    """(…, Hkv, S): the weights of the last query, averaged over all heads."""
    last = a.received(1, groups="mean")
    return last * 0 + last.mean(-2)[..., None, :]


def kvzip(a: Receiving) -> Any:
    """(…, Hkv, S): the largest weight that a key received from any query and head of its group.
    Published for the queries of a pass that repeats the context: give that attention."""
    return a.received(how="max", groups="max")


def snapkv(
    a: Receiving, window: int = 64, kernel: int = 5, pool: Literal["avg", "max"] = "avg"
) -> Any:
    """(…, Hkv, S): the mean weight from the last `window` queries, pooled over `kernel` keys beside
    each other. The window's own keys, which are always kept, have 1 more than the largest score."""
    for name, given, odd in (("window", window, False), ("kernel", kernel, True)):
        if type(given) is not int or given < 1 or (odd and given % 2 == 0):
            wanted = "an odd number ≥ 1" if odd else "a whole number ≥ 1"
            raise InputError(f"snapkv({name}={given!r}); give {wanted}")
    if pool not in ("avg", "max"):
        raise InputError(f"snapkv(pool={pool!r}); give 'avg' or 'max'")
    mass = a.received(window, groups="mean") / window
    before = mass.shape[-1] - window
    if before < 1:
        raise InputError(
            f"snapkv(window={window}): there are {mass.shape[-1]} keys, none before the window; "
            "give a smaller window"
        )
    pooled = _pooled(mass[..., :before], kernel, pool)
    most = amax(pooled)[..., None]
    own = filled(pooled, (*pooled.shape[:-1], window), 1) + most
    return library(pooled).concatenate([pooled, own], -1)


def _pooled(x: Any, kernel: int, pool: str) -> Any:
    """(…, S) → the same; what lies outside counts 0 in a mean and never is the largest."""
    beside = filled(x, (*x.shape[:-1], kernel // 2), 0 if pool == "avg" else -float("inf"))
    wide = library(x).concatenate([beside, x, beside], -1)
    found = wide[..., : x.shape[-1]]
    for n in range(1, kernel):
        other = wide[..., n : n + x.shape[-1]]
        found = found + other if pool == "avg" else library(x).maximum(found, other)
    return found / kernel if pool == "avg" else found


def value_norms(value: Any, w_o: Any) -> Any:
    """(…, Hq, S): ‖v_j w_o‖ of each query head, from values (…, Hkv, S, Dv) and w_o (Hq·Dv, E), the
    transposed weight of a torch.nn.Linear. By ‖v w‖² = v (w wᵀ) vᵀ: nothing is as wide as E."""
    dim, rows = value.shape[-1], w_o.shape[0]
    heads = value.shape[-3]
    if w_o.ndim != 2 or rows % (dim * heads):
        raise ShapeError(
            f"w_o has shape {tuple(w_o.shape)}, values {tuple(value.shape)}; give (Hq·{dim}, E) "
            f"with Hq a multiple of {heads}: of a torch.nn.Linear, weight.T"
        )
    w = w_o.reshape(heads, -1, dim, w_o.shape[-1])  # (Hkv, group, Dv, E)
    gram = w @ w.swapaxes(-1, -2)  # (Hkv, group, Dv, Dv)
    v = value[..., :, None, :, :]  # (…, Hkv, 1, S, Dv)
    squares = ((v @ gram) * v).sum(-1)  # (…, Hkv, group, S)
    squares = squares * (squares > 0)  # rounding may leave less than 0
    return (squares**0.5).reshape(*value.shape[:-3], -1, value.shape[-2])


def value_aware(
    a: Receiving,
    value: Any,
    w_o: Any,
    *,
    queries: Any = None,
    how: Literal["sum", "mean", "max"] = "sum",
    groups: Literal["sum", "mean", "max"] = "mean",
) -> Any:
    """(…, Hkv, S): the weights that keys received × ‖v_j w_o‖, what they can add to the output."""
    scores = a.received(queries, how=how) * value_norms(value, w_o)
    *lead, _, keys = scores.shape
    return over_group(scores.reshape(*lead, value.shape[-3], -1, keys), groups)
