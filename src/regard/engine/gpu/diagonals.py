# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Sums of diagonals: entry e is Σ p_ij over j − i = e − (L − 1).

One program owns 64 neighbouring diagonals and walks down the rows. The tile under it is a
parallelogram; it is computed as a rectangle twice as wide and each row is read from its own
offset, so that a diagonal stands in a column.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.call import RowState
from regard.engine.gpu.bind import Bound
from regard.engine.gpu.launch import Shape, blocks, options, strides_of
from regard.engine.gpu.running import run
from regard.engine.gpu.tile import (
    factor,
    load_rows,
    load_state,
    log2e,
    score,
    times,
    weight,
)

_SHAPE = Shape(64, 128, 4, 1)
_NARROW = Shape(16, 32, 4, 1)


@triton.jit
def _diagonals(
    Q, K, rule, peak, log, chosen, found, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One bundle of BM diagonals of one head; BN = 2·BM."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    bundle = tl.program_id(0) * BM - (rule.queries - 1)  # j − i of its first diagonal
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    queries = Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1]
    keys = K + b.to(tl.int64) * k_strides[0] + kh * k_strides[1]
    r = tl.arange(0, BM)
    d = tl.arange(0, D)
    row = unit.to(tl.int64) * rule.queries
    sums = tl.zeros([BM], ACC)
    lost = tl.zeros([BM], ACC)
    start = tl.maximum(-bundle - BM + 1, 0) // BM * BM
    end = tl.minimum(rule.queries, rule.keys - bundle)
    # a causal mask or a window hides whole diagonals: nothing to walk
    if rule.most is not None:
        end = tl.where(bundle > rule.most, start, end)
    if rule.least is not None:
        end = tl.where(bundle + BM <= rule.least, start, end)
    for n in tl.range(start, end, BM):
        i = n + r
        j = n + bundle + tl.arange(0, BN)
        q = load_rows(queries, n, rule.queries, dim, q_strides[2], BM, D, False)
        there = (j >= 0) & (j < rule.keys)
        k = tl.load(keys + j.to(tl.int64)[:, None] * k_strides[2] + d[None, :],
                    mask=there[:, None] & (d < dim)[None, :], other=0.0)  # fmt: skip
        s = times(q, k.T, PRECISION, WIDE)
        near = tl.where(there, j, rule.keys)  # before the first key is outside as well
        x, _, _, _ = score(s, rule, b, h, i[:, None], near[None, :], near[None, :], FAST, True)
        p_row, l_row = load_state(peak + row, log + row, i, i < rule.queries)
        p, _ = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
        if chosen is not None:
            taken = tl.load(chosen + i, mask=i < rule.queries, other=0) != 0
            p = tl.where(taken[:, None], p, 0.0)
        p = tl.gather(p, r[:, None] + tl.arange(0, BM)[None, :], 1)
        part = tl.sum(p, 0) - lost
        grown = sums + part
        lost = (grown - sums) - part
        sums = grown
    wide = rule.queries + rule.keys - 1
    e = tl.program_id(0) * BM + r
    tl.store(found + unit.to(tl.int64) * wide + e, sums, mask=e < wide)


def diagonals(bound: Bound, state: RowState, chosen: Tensor | None) -> Tensor:
    """(B, Hq, L + S − 1)."""
    rule = bound.rule
    wide = max(rule.queries + rule.keys - 1, 0)
    found = bound.new(wide)
    if 0 in (rule.queries, rule.keys):
        return found.zero_()
    dim = bound.query.shape[-1]
    shape = _SHAPE if dim * bound.query.element_size() <= 256 else _NARROW
    peak, log = (part.to(bound.exact).contiguous() for part in state)
    grid = (blocks(wide, shape.rows), bound.units)
    if 0 not in grid:
        run(
            _diagonals, grid,
            bound.query, bound.key, rule, peak, log,
            None if chosen is None else chosen.contiguous().view(torch.uint8), found,
            strides_of(bound.query), strides_of(bound.key), dim, BM=shape.rows, BN=shape.keys,
            **options(bound, shape),
        )  # fmt: skip
    return found
