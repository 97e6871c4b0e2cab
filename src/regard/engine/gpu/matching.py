# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The mass on earlier keys that carry the query's own mark: Σ_j p_ij [mark_i = mark_j, j < i]."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.engine.call import RowState
from regard.engine.gpu.bind import Bound
from regard.engine.gpu.launch import across, blocks, options, row_shape, strides_of
from regard.engine.gpu.running import run
from regard.engine.gpu.tile import (
    factor,
    key_at,
    key_range,
    key_steps,
    load_rows,
    load_state,
    log2e,
    score,
    source,
    times,
    weight,
)
from regard.summary import Matching


@triton.jit
def _matching(
    Q, K, rule, peak, log, query_marks, key_marks, found, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    first = tl.program_id(0) * BM
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    i = first + tl.arange(0, BM)
    wide = b.to(tl.int64)
    queries = source(Q + wide * q_strides[0] + h.to(tl.int64) * q_strides[1], rule.queries, dim,
                     q_strides[2], BM, D, TMA)  # fmt: skip
    keys = source(K + wide * k_strides[0] + kh * k_strides[1], rule.keys, dim, k_strides[2], BN, D,
                  TMA)  # fmt: skip
    q = load_rows(queries, first, rule.queries, dim, q_strides[2], BM, D, TMA)
    inside = i < rule.queries
    at = unit.to(tl.int64) * rule.queries + i
    p_row, l_row = load_state(peak, log, at, inside)
    own = tl.load(query_marks + wide * rule.queries + i, mask=inside, other=0)
    mass = tl.zeros([BM], ACC)
    start, _full, _partial, end = key_range(rule, b, first, BM, BN)
    # only keys before the last of these queries count
    end = tl.minimum(end, first + BM + rule.position)
    start, end = key_steps(rule, b, h, first, start, end)
    for step in tl.range(start, end, BN):
        n = key_at(rule, b, h, first, step)
        j = n + tl.arange(0, BN)
        k = load_rows(keys, n, rule.keys, dim, k_strides[2], BN, D, TMA)
        s = times(q, k.T, PRECISION, WIDE)
        x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], n, FAST, True)
        p, _ = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
        mark = tl.load(key_marks + wide * rule.keys + j, mask=j < rule.keys, other=0)
        same = (own[:, None] == mark[None, :]) & (j[None, :] < i[:, None] + rule.position)
        # where the state is NaN, so is the sum
        mass += tl.sum(tl.where(same, p, p * 0.0), 1)
    tl.store(found + at, mass, mask=inside)


def matching(bound: Bound, state: RowState, summary: Matching) -> Tensor:
    """(B, Hq, L)."""
    found = bound.new(bound.rule.queries)
    batch, device = bound.batch, bound.query.device
    marks = [
        given.to(device).expand(*batch, given.shape[-1]).contiguous()
        for given in (summary.query_marks, summary.key_marks)
    ]
    shape = row_shape(bound.query.shape[-1], bound.query.dtype)
    grid = (blocks(bound.rule.queries, shape.rows), bound.units)
    peak, log = (part.to(bound.exact).contiguous() for part in state)
    if 0 not in grid:
        run(
            _matching, grid,
            bound.query, bound.key, bound.rule, peak, log, *marks, found, strides_of(bound.query),
            strides_of(bound.key), bound.query.shape[-1], BM=shape.rows, BN=shape.keys,
            TMA=across(bound.query) and across(bound.key), **options(bound, shape),
        )  # fmt: skip
    return found
