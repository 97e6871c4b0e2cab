# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Rectangles: some rows × some keys of some heads, wherever they stand. One tile shape, so that a
cell has the same bits in whatever rectangle it is asked for."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.launch import (
    Shape,
    blocks,
    options,
    run,
    strides_of,
)
from regard.engine.backends.gpu.tile import (
    factor,
    key_offsets,
    load_state,
    log2e,
    score,
    times,
    weight,
)
from regard.engine.call import Place, RowState, What

_SHAPE = Shape(64, 64, 4, 1)
_NARROW = Shape(32, 32, 4, 1)  # where numbers or heads are wide


@triton.jit
def _cells(
    Q, K, rule, peak, log, units, rows, cols, found, count_rows, count_cols, q_strides, k_strides,
    dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SCORES: tl.constexpr, FAST: tl.constexpr,
    PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One tile of one head's rectangle."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    unit = tl.load(units + tl.program_id(2))
    b = unit // rule.heads
    h = unit % rule.heads
    in_rows = r < count_rows
    in_cols = c < count_cols
    i = tl.load(rows + r, mask=in_rows, other=0).to(tl.int32)
    j = tl.load(cols + c, mask=in_cols, other=0).to(tl.int32)
    d = tl.arange(0, D)
    q_at = b * q_strides[0] + h * q_strides[1] + i.to(tl.int64)[:, None] * q_strides[2] + d[None, :]
    k_at = b * k_strides[0] + h // rule.group * k_strides[1]
    k_at = k_at + key_offsets(rule, j, in_cols, k_strides[2])[:, None] + d[None, :]
    q = tl.load(Q + q_at, mask=in_rows[:, None] & (d < dim)[None, :], other=0.0)
    k = tl.load(K + k_at, mask=in_cols[:, None] & (d < dim)[None, :], other=0.0)
    s = times(q, k.T, PRECISION, WIDE)
    x, _, _, seen = score(s, rule, b.to(tl.int32), h.to(tl.int32), i[:, None], j[None, :],
                          j[None, :], FAST, True)  # fmt: skip
    if SCORES:
        made = tl.where(seen, x * factor(rule, s, FAST), -float("inf"))
    else:
        p_row, l_row = load_state(peak, log, unit * rule.queries + i, in_rows)
        made, _ = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
    at = tl.program_id(2).to(tl.int64) * count_rows + r
    at = at[:, None] * count_cols + c[None, :]
    tl.store(found + at, made, mask=in_rows[:, None] & in_cols[None, :])


def cells(bound: Bound, state: RowState | None, place: Place, what: What) -> Tensor:
    """(units, rows, cols)."""
    units, rows, cols = (part.contiguous() for part in place)
    size = (len(units), len(rows), len(cols))
    found = bound.query.new_empty(size, dtype=bound.exact)
    dim = bound.query.shape[-1]
    shape = _SHAPE if dim * bound.query.element_size() <= 512 else _NARROW
    # the kernel reads no state where scores are asked for
    peak, log = (found, found) if state is None else (p.to(bound.exact).contiguous() for p in state)
    if 0 not in size:
        grid = (blocks(size[1], shape.rows), blocks(size[2], shape.keys), size[0])
        run(
            _cells, grid,
            bound.query, bound.key, bound.rule, peak, log, units, rows, cols, found,
            size[1], size[2], strides_of(bound.query), strides_of(bound.key), dim,
            BM=shape.rows, BN=shape.keys, SCORES=what == "scores", **options(bound, shape),
        )  # fmt: skip
    return found
