# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The mass on earlier keys that carry the query's own mark: Σ_j p_ij [mark_i = mark_j, j < i].

Of a text's tokens few are copies of another, so of all pairs few count. With queries and keys each
in the order of their marks, keys of one mark stand together: a block of such queries looks at the
keys from its least mark to its greatest, and at no others. Where all marks are one, that is every
key, as without an order.

The order is that of the marks alone: made once for all layers that are asked with the same summary.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.launch import Shape, blocks, options, padded, run, strides_of
from regard.engine.backends.gpu.steps import stream_of
from regard.engine.backends.gpu.tile import (
    factor,
    load_key_tokens,
    load_state,
    load_tokens,
    log2e,
    score,
    stands_at,
    times,
    weight,
)
from regard.engine.call import RowState
from regard.summary import Matching


class MarkOrder(NamedTuple):
    """Queries and keys by their marks."""

    queries: Tensor  # (B, L) int32: places, in the order of marks
    query_marks: Tensor  # (B, L), in this order
    keys: Tensor  # (B, S)
    key_marks: Tensor
    start: Tensor  # (B, blocks): the first key, in this order, that a block of queries looks at
    end: Tensor


@triton.jit
def _matching(
    Q, K, rule, peak, log, order, found, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head, in the order of their marks."""
    block = tl.program_id(0)
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    wide = b.to(tl.int64)
    r = block * BM + tl.arange(0, BM)
    inside = r < rule.queries
    i = tl.load(order.queries + wide * rule.queries + r, mask=inside, other=0)
    own = tl.load(order.query_marks + wide * rule.queries + r, mask=inside, other=0)
    queries = Q + wide * q_strides[0] + h.to(tl.int64) * q_strides[1]
    keys = K + wide * k_strides[0] + kh * k_strides[1]
    q = load_tokens(queries, i, inside, dim, q_strides[2], D)
    at = unit.to(tl.int64) * rule.queries + i
    p_row, l_row = load_state(peak, log, at, inside)
    mass = (p_row + l_row) * 0.0  # where the state is NaN, so is the sum
    line = wide * tl.num_programs(0) + block
    for n in tl.range(tl.load(order.start + line), tl.load(order.end + line), BN):
        c = n + tl.arange(0, BN)
        there = c < rule.keys
        j = tl.load(order.keys + wide * rule.keys + c, mask=there, other=0)
        mark = tl.load(order.key_marks + wide * rule.keys + c, mask=there, other=0)
        k = load_key_tokens(keys, rule, j, there, dim, k_strides[2], D)
        s = times(q, k.T, PRECISION, WIDE)
        near = tl.where(there, j, rule.keys)
        x, _, _, _ = score(s, rule, b, h, i[:, None], near[None, :], near[None, :], FAST, True)
        p, _ = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
        same = (own[:, None] == mark[None, :]) & (j[None, :] < stands_at(rule, i)[:, None])
        mass += tl.sum(tl.where(same & there[None, :], p, 0.0), 1)
    tl.store(found + at, mass, mask=inside)


def matching(bound: Bound, state: RowState, summary: Matching) -> Tensor:
    """(B, Hq, L)."""
    found = bound.new(bound.rule.queries)
    shape = _shape(bound)
    grid = (blocks(bound.rule.queries, shape.rows), bound.units)
    peak, log = (part.to(bound.exact).contiguous() for part in state)
    if 0 not in grid:
        run(
            _matching, grid,
            bound.query, bound.key, bound.rule, peak, log, _ordered(bound, summary, shape.rows),
            found, strides_of(bound.query), strides_of(bound.key), bound.query.shape[-1],
            BM=shape.rows, BN=shape.keys, **options(bound, shape),
        )  # fmt: skip
    return found


def _shape(bound: Bound) -> Shape:
    """Small: a block of queries looks at about as many keys."""
    if bound.exact == torch.float64:
        return Shape(32, 32, 4, 1)
    if bound.query.dtype == torch.float32 or padded(bound.query.shape[-1]) > 128:
        return Shape(32, 32, 4, 2)
    return Shape(64, 64, 4, 2)


_ORDERS: WeakKeyDictionary[Matching, tuple[Any, MarkOrder]] = WeakKeyDictionary()


def _ordered(bound: Bound, summary: Matching, rows: int) -> MarkOrder:
    """The order that was made last for a summary, or a new one. Memory of a graph that is being
    captured is used by others behind it, so there none is kept."""
    device = bound.query.device
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return _order(bound, summary, rows)
    like = (bound.batch, device, stream_of(device), rows)
    kept = _ORDERS.get(summary)
    if kept is None or kept[0] != like:
        kept = _ORDERS[summary] = like, _order(bound, summary, rows)
    return kept[1]


def _order(bound: Bound, summary: Matching, rows: int) -> MarkOrder:
    device, entries = bound.query.device, bound.query.shape[0]
    queries, keys = (
        given.to(device, torch.int64).expand(*bound.batch, -1).reshape(entries, given.shape[-1])
        for given in (summary.query_marks, summary.key_marks)
    )
    own, order = queries.sort(dim=-1, stable=True)
    marks, places = keys.sort(dim=-1, stable=True)
    last = torch.arange(rows - 1, own.shape[-1] + rows - 1, rows, device=device)
    least, most = own[:, ::rows].contiguous(), own[:, last.clamp(max=own.shape[-1] - 1)]
    start = torch.searchsorted(marks, least, out_int32=True)
    end = torch.searchsorted(marks, most, right=True, out_int32=True)
    return MarkOrder(order.to(torch.int32), own, places.to(torch.int32), marks, start, end)
