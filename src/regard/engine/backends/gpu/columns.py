# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Sums over queries, by key.

    product_j = Σ_i p_ij y_i        mass_j = Σ_i p_ij, along with it
    count_j   = how many queries may see a key: the mask alone, so nothing is multiplied

One program owns a block of keys and walks the queries. Without y there is nothing to multiply and
the replay answers, or the kept scores of few queries. Scores are computed turned, K Qᵀ. Sums carry
their own rounding error along (Kahan), and nothing is added atomically.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound, flat, query_bounds
from regard.engine.backends.gpu.decode import decodes
from regard.engine.backends.gpu.few import received
from regard.engine.backends.gpu.launch import (
    Shape,
    across,
    blocks,
    column_shape,
    options,
    padded,
    run,
    strides_of,
)
from regard.engine.backends.gpu.replay import replay
from regard.engine.backends.gpu.tile import (
    factor,
    load_keys,
    load_rows,
    load_state,
    log2e,
    query_at,
    query_range,
    query_steps,
    score,
    source,
    times,
    weight,
)
from regard.engine.call import RowState
from regard.summary import ColumnSums


@triton.jit
def _fold(
    state, n, k, queries, y, peak, log, chosen, rule, sizes, b, h, j, first,
    D: tl.constexpr, DY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr,
    MASKED: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of queries, added to a block of keys."""
    mass, lost, product, rest = state
    i = n + tl.arange(0, BM)
    q = load_rows(queries, n, rule.queries, sizes[0], sizes[1], BM, D, TMA)
    s = times(k, q.T, PRECISION, WIDE)
    x, _, _, _ = score(s, rule, b, h, i[None, :], j[:, None], first, FAST, MASKED)
    p_row, l_row = load_state(peak, log, i, i < rule.queries)
    p, _ = weight(x, factor(rule, s, FAST) * log2e(s), p_row[None, :], l_row[None, :])
    if chosen is not None:
        taken = tl.load(chosen + i, mask=i < rule.queries, other=0) != 0
        p = tl.where(taken[None, :], p, 0.0)
    added = tl.sum(p, 1) - lost
    grown = mass + added
    lost = (grown - mass) - added
    mass = grown
    rows = load_rows(y, n, rule.queries, sizes[2], sizes[3], BM, DY, False)
    part = times(p.to(rows.dtype), rows, PRECISION, WIDE) - rest
    larger = product + part
    rest = (larger - product) - part
    return mass, lost, larger, rest


@triton.jit
def _columns(
    Q, K, Y, rule, peak, log, chosen, found, q_strides, k_strides, y_strides, dim, width,
    D: tl.constexpr, DY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr,
    PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One block of keys of one query head, one chunk of y."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    first = tl.program_id(0) * BN
    unit = tl.program_id(1)
    chunk = tl.program_id(2)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    j = first + tl.arange(0, BN)
    wide = b.to(tl.int64)
    queries = source(Q + wide * q_strides[0] + h.to(tl.int64) * q_strides[1], rule.queries, dim,
                     q_strides[2], BM, D, TMA)  # fmt: skip
    keys = source(K + wide * k_strides[0] + kh * k_strides[1], rule.keys, dim, k_strides[2], BN, D,
                  TMA)  # fmt: skip
    y = Y + wide * y_strides[0] + h.to(tl.int64) * y_strides[1] + chunk * DY
    k = load_keys(keys, rule, first, dim, k_strides[2], BN, D, TMA)
    sizes = (dim, q_strides[2], width - chunk * DY, y_strides[2])
    row = unit.to(tl.int64) * rule.queries
    zero = tl.zeros([BN], ACC)
    nothing = tl.zeros([BN, DY], ACC)
    state = (zero, zero, nothing, nothing)
    start, full, partial, end = query_range(rule, b, first, BM, BN)
    if PLAIN and rule.low is None:
        for n in tl.range(start, tl.minimum(full, end), BM):
            state = _fold(state, n, k, queries, y, peak + row, log + row, chosen, rule, sizes,
                          b, h, j, first, D, DY, BM, BN, FAST, True, PRECISION, WIDE,
                          TMA)  # fmt: skip
        for n in tl.range(full, partial, BM):
            state = _fold(state, n, k, queries, y, peak + row, log + row, chosen, rule, sizes,
                          b, h, j, first, D, DY, BM, BN, FAST, False, PRECISION, WIDE,
                          TMA)  # fmt: skip
        start = partial
    start, end = query_steps(rule, b, h, first, start, end)
    for step in tl.range(start, end, BM):
        n = query_at(rule, b, h, first, step)
        state = _fold(state, n, k, queries, y, peak + row, log + row, chosen, rule, sizes,
                      b, h, j, first, D, DY, BM, BN, FAST, True, PRECISION, WIDE, TMA)  # fmt: skip
    mass, _lost, product, _rest = state
    at = unit.to(tl.int64) * rule.keys + j
    inside = j < rule.keys
    tl.store(found.mass + at, mass, mask=inside & (j * 0 + chunk == 0))
    c = chunk * DY + tl.arange(0, DY)
    tl.store(found.product + at[:, None] * width + c[None, :], product,
             mask=inside[:, None] & (c < width)[None, :])  # fmt: skip


class ColumnTotals(NamedTuple):
    """(B, Hq, S), the product with y's width behind; None where not asked for."""

    mass: Tensor
    seen: Tensor | None
    product: Tensor | None
    largest: Tensor | None = None


def columns(
    bound: Bound, state: RowState, chosen: Tensor | None, y: Tensor | None, asked: ColumnSums
) -> ColumnTotals:
    """Sums over the chosen queries, and their largest weights."""
    if y is None:
        mass, largest = _mass_and_largest(bound, state, chosen, asked)
        found = ColumnTotals(mass, None, None, largest)
    else:
        found = _multiplied(bound, state, chosen, flat(y.to(bound.exact)))
        if asked.largest or asked.by is not None:
            mass, largest = _mass_and_largest(bound, state, chosen, asked)
            found = found._replace(mass=mass, largest=largest)
    return found._replace(seen=counts(bound, chosen)) if asked.seen else found


def _mass_and_largest(
    bound: Bound, state: RowState, chosen: Tensor | None, asked: ColumnSums
) -> tuple[Tensor, Tensor | None]:
    """By the kept scores of few queries, or a replay."""
    if decodes(bound):
        return received(bound, state, chosen, asked)
    found = replay(
        bound, state, chosen, largest=asked.largest, mass=asked.mass or not asked.largest,
        by=asked.by,
    )  # fmt: skip
    return bound.new(0) if found.mass is None else found.mass, found.largest


def _multiplied(bound: Bound, state: RowState, chosen: Tensor | None, y: Tensor) -> ColumnTotals:
    keys, width = bound.rule.keys, y.shape[-1]
    found = ColumnTotals(bound.new(keys), None, bound.new(keys, width))
    # y counts in full precision whatever the keys are: six products from registers a tile, for
    # which the larger tiles of half precision leave too few (they were wrong on an H200)
    shape = column_shape(bound.query.shape[-1], bound.exact)
    chunk = min(padded(width), 64)
    grid = (blocks(keys, shape.keys), bound.units, max(1, blocks(width, chunk)))
    peak, log = (part.to(bound.exact).contiguous() for part in state)
    taken: Any = None if chosen is None else chosen.contiguous().view(torch.uint8)
    if 0 not in grid:
        run(
            _columns, grid,
            bound.query, bound.key, y, query_bounds(bound.rule), peak, log, taken, found,
            strides_of(bound.query), strides_of(bound.key), strides_of(y),
            bound.query.shape[-1], width, DY=chunk, BM=shape.rows, BN=shape.keys,
            TMA=across(bound.query) and across(bound.key), **options(bound, shape),
        )  # fmt: skip
    return found


# ── how many ─────────────────────────────────────────────────────────────────────────────────

_COUNTED = Shape(32, 128, 4, 1)


@triton.jit
def _counted(chosen, n, queries, BM: tl.constexpr):
    """(BM,): which queries of a tile count."""
    i = n + tl.arange(0, BM)
    taken = i < queries
    if chosen is not None:
        taken &= tl.load(chosen + i, mask=taken, other=0) != 0
    return i, taken


@triton.jit
def _seen(
    count, chosen, rule, b, h, j, first, start, end, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Tile by tile, as the mask says and a bias of −∞; what scores are does not matter."""
    nothing = tl.zeros([BN, BM], tl.float32)
    start, end = query_steps(rule, b, h, first, start, end)
    for step in tl.range(start, end, BM):
        n = query_at(rule, b, h, first, step)
        i, taken = _counted(chosen, n, rule.queries, BM)
        _, _, _, seen = score(nothing, rule, b, h, i[None, :], j[:, None], first, True, True)
        count += tl.sum((seen & taken[None, :]).to(tl.int32), 1)
    return count


@triton.jit
def _counts(
    rule, chosen, found,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of keys of one query head."""
    first = tl.program_id(0) * BN
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    j = first + tl.arange(0, BN)
    count = tl.zeros([BN], tl.int32)
    start, full, partial, end = query_range(rule, b, first, BM, BN)
    if PLAIN and rule.low is None:
        count = _seen(count, chosen, rule, b, h, j, first, start, tl.minimum(full, end), BM, BN)
        for n in tl.range(full, partial, BM):
            _, taken = _counted(chosen, n, rule.queries, BM)
            count += tl.sum(taken.to(tl.int32), 0)
        start = partial
    count = _seen(count, chosen, rule, b, h, j, first, start, end, BM, BN)
    at = unit.to(tl.int64) * rule.keys + j
    tl.store(found + at, count, mask=j < rule.keys)


def counts(bound: Bound, chosen: Tensor | None) -> Tensor:
    """(B, Hq, S) int32, of the chosen queries."""
    rule = query_bounds(bound.rule)
    found = bound.new(rule.keys, dtype=torch.int32)
    grid = (blocks(rule.keys, _COUNTED.keys), bound.units)
    if 0 not in grid:
        flags = None if chosen is None else chosen.contiguous().view(torch.uint8)
        run(
            _counts,
            grid,
            rule,
            flags,
            found,
            BM=_COUNTED.rows,
            BN=_COUNTED.keys,
            **options(bound, _COUNTED),
        )
    return found
