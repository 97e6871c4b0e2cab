# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The backward sweep, weights computed again from (peak, log):

    dP = gO Vᵀ        dS = p (dP − shift − slope·(s − lse)) · d capped/d scaled · scale
    dQ = dS K         dK = dSᵀ Q         dV = pᵀ gO

dQ on a grid of query blocks; dK and dV on a grid of key blocks, which walks the queries of every
head of the group, so that shared heads add up in order: no atomics. What each key received from
each of these heads comes along where it is asked for.

A row's numbers are prepared once, such that a weight costs one fused multiply-add and one power, as
in `replay`, and dS three more. lse is one number there. What rounding it lost is made up for in the
row's shift, and by a factor, its share, where weights are kept better than that: half precision
loses more, except in the mass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound, flat, query_bounds
from regard.engine.backends.gpu.launch import (
    EXACT,
    Shape,
    across,
    blocks,
    options,
    padded,
    run,
    strides_of,
)
from regard.engine.backends.gpu.tile import (
    clear_queries,
    factor,
    key_at,
    key_range,
    key_steps,
    ln2,
    load_rows,
    load_state,
    log2e,
    number,
    query_at,
    query_range,
    query_steps,
    score,
    source,
    times,
)
from regard.engine.call import RowState

_ROWS = 1024  # that a program prepares
_MULTIPLIED = 32  # rows of a program that multiplies dO and O


@triton.jit
def _prepare(peak, log, shift, slope, terms, rows, padded, BLOCK: tl.constexpr):
    """Of some rows of one head: level, share, moved and, where there is a slope, −steep; each of
    (units, padded). Rows beyond the last weigh nothing."""
    unit = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < rows
    at = unit * rows + i
    p, g = load_state(peak, log, at, inside)
    lse = p + g
    back = lse - p
    lost = (p - (lse - back)) + (g - back)  # p + g = lse + lost, exactly
    to = terms + unit * padded + i
    step = tl.num_programs(1).to(tl.int64) * padded
    moved = tl.load(shift + at, mask=inside, other=0.0)
    if slope is not None:
        steep = tl.load(slope + at, mask=inside, other=0.0) * ln2(lse)
        moved -= steep * lost
        tl.store(to + 3 * step, -steep, mask=i < padded)
    tl.store(to, -lse, mask=i < padded)
    tl.store(to + step, tl.exp2(-lost), mask=i < padded)
    tl.store(to + 2 * step, moved, mask=i < padded)


@triton.jit(do_not_specialize=["rows"])
def _products(
    G, Y, shift, found, g_strides, y_strides, heads, rows, value_dim,
    ROWS: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """shift + gO·o of some rows of one head."""
    unit = tl.program_id(1)
    b = (unit // heads).to(tl.int64)
    h = (unit % heads).to(tl.int64)
    first = tl.program_id(0) * ROWS
    i = first + tl.arange(0, ROWS)
    at = unit.to(tl.int64) * rows + i
    outer = G + b * g_strides[0] + h * g_strides[1]
    output = Y + b * y_strides[0] + h * y_strides[1]
    total = tl.load(shift + at, mask=i < rows, other=0.0)
    for c in tl.static_range(CHUNKS):
        left = value_dim - c * DV
        g = load_rows(outer + c * DV, first, rows, left, g_strides[2], ROWS, DV, False)
        y = load_rows(output + c * DV, first, rows, left, y_strides[2], ROWS, DV, False)
        total += tl.sum(g.to(total.dtype) * y.to(total.dtype), 1)
    tl.store(found + at, total, mask=i < rows)


@triton.jit
def _terms_of(line, step, i, FINE: tl.constexpr, STEEP: tl.constexpr):
    """(level, moved, share, steep) of some rows; what is not needed is another."""
    level = tl.load(line + i)
    moved = tl.load(line + 2 * step + i)
    share = moved
    steep = moved
    if FINE:
        share = tl.load(line + step + i)
    if STEEP:  # the entropy takes part
        steep = tl.load(line + 3 * step + i)
    return level, moved, share, steep


@triton.jit
def _turned(s, dp, terms, rule, b, h, i, j, near, FAST: tl.constexpr, MASKED: tl.constexpr,
            FINE: tl.constexpr, STEEP: tl.constexpr):  # fmt: skip
    """The weights of a tile and dS before scale; i, j and the rows' terms broadcast."""
    level, moved, share, steep = terms
    # rows' terms as they are: where queries pass, each 0 + term would be one more addition a number
    x, _, bent, _ = score(s, rule, b, h, i, j, near, FAST, MASKED)
    per = factor(rule, s, FAST) * log2e(s)
    u = tl.fma(x, tl.zeros_like(x) + per, tl.broadcast_to(level, x.shape))
    p = tl.exp2(u)
    if FINE:
        p = p * share
    inner = dp - moved
    if STEEP:
        inner = tl.fma(u, tl.broadcast_to(steep, u.shape), inner)
    ds = p * inner
    if MASKED:  # whatever stands at a hidden key
        ds = tl.where(p == 0, 0.0, ds)
    if rule.softcap is not None:
        ds = ds * bent
    return p, ds


# ── queries ──────────────────────────────────────────────────────────────────────────────────


@triton.jit
def _by_keys(
    dq, n, q, g, outer, first, keys, values, terms, rule, sizes, b, h, i,
    D: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAST: tl.constexpr, MASKED: tl.constexpr, FINE: tl.constexpr, STEEP: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of keys, added to dQ."""
    dim, k_stride, value_dim, v_stride, g_stride = sizes
    j = n + tl.arange(0, BN)
    k = load_rows(keys, n, rule.keys, dim, k_stride, BN, D, TMA)
    s = times(q, k.T, PRECISION, WIDE)
    dp = s * 0.0
    if CHUNKS == 1:
        v = load_rows(values, n, rule.keys, value_dim, v_stride, BN, DV, TMA)
        dp = times(g, v.T, PRECISION, WIDE)
    elif CHUNKS > 1:
        dp = tl.zeros_like(s)
        for c in tl.static_range(CHUNKS):
            left = value_dim - c * DV
            part = load_rows(outer + c * DV, first, rule.queries, left, g_stride, BM, DV, False)
            v = load_rows(values + c * DV, n, rule.keys, left, v_stride, BN, DV, False)
            dp += times(part, v.T, PRECISION, WIDE)
    _, ds = _turned(s, dp, terms, rule, b, h, i[:, None], j[None, :], n, FAST, MASKED, FINE,
                    STEEP)  # fmt: skip
    return dq + times(ds.to(k.dtype), k, PRECISION, WIDE)


@triton.jit
def _query_gradient(
    Q, K, V, G, rule, lines, padded, found, q_strides, k_strides, v_strides, g_strides, dim,
    value_dim,
    D: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, FINE: tl.constexpr, STEEP: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """dQ of one block of queries of one head."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    wide = b.to(tl.int64)
    high = h.to(tl.int64)
    kh = (h // rule.group).to(tl.int64)
    i = first + tl.arange(0, BM)
    keys = source(K + wide * k_strides[0] + kh * k_strides[1], rule.keys, dim, k_strides[2], BN, D,
                  TMA)  # fmt: skip
    values = source(V + wide * v_strides[0] + kh * v_strides[1], rule.keys, value_dim,
                    v_strides[2], BN, DV, TMA)  # fmt: skip
    outer = G + wide * g_strides[0] + high * g_strides[1]
    q = load_rows(Q + wide * q_strides[0] + high * q_strides[1], first, rule.queries, dim,
                  q_strides[2], BM, D, False)  # fmt: skip
    g = q
    if CHUNKS == 1:
        g = load_rows(outer, first, rule.queries, value_dim, g_strides[2], BM, DV, False)
    step = tl.num_programs(1).to(tl.int64) * padded
    level, moved, share, steep = _terms_of(lines + unit.to(tl.int64) * padded, step, i, FINE, STEEP)
    terms = (level[:, None], moved[:, None], share[:, None], steep[:, None])
    sizes = (dim, k_strides[2], value_dim, v_strides[2], g_strides[2])
    dq = tl.zeros([BM, D], ACC)
    start, full, partial, end = key_range(rule, b, first, BM, BN)
    if PLAIN:
        if rule.least is not None or rule.low is not None:
            for n in tl.range(start, tl.minimum(full, end), BN):
                dq = _by_keys(dq, n, q, g, outer, first, keys, values, terms, rule, sizes, b, h, i,
                              D, DV, CHUNKS, BM, BN, FAST, True, FINE, STEEP, PRECISION, WIDE,
                              TMA)  # fmt: skip
        for n in tl.range(full, partial, BN):
            dq = _by_keys(dq, n, q, g, outer, first, keys, values, terms, rule, sizes, b, h, i,
                          D, DV, CHUNKS, BM, BN, FAST, False, FINE, STEEP, PRECISION, WIDE,
                          TMA)  # fmt: skip
        start = partial
    start, end = key_steps(rule, b, h, first, start, end)
    for place in tl.range(start, end, BN):
        n = key_at(rule, b, h, first, place)
        dq = _by_keys(dq, n, q, g, outer, first, keys, values, terms, rule, sizes, b, h, i,
                      D, DV, CHUNKS, BM, BN, FAST, True, FINE, STEEP, PRECISION, WIDE,
                      TMA)  # fmt: skip
    at = unit.to(tl.int64) * rule.queries + i
    d = tl.arange(0, D)
    tl.store(found + at[:, None] * dim + d[None, :], dq * number(rule.scale, dq),
             mask=(i < rule.queries)[:, None] & (d < dim)[None, :])  # fmt: skip


# ── keys and values ──────────────────────────────────────────────────────────────────────────


@triton.jit
def _by_queries(
    held, n, k, v, values, queries, outer, line, step, rule, sizes, b, h, j, first, chunk,
    D: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAST: tl.constexpr, MASKED: tl.constexpr, FINE: tl.constexpr, STEEP: tl.constexpr,
    MASS: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of queries, added to dK, a chunk of dV and the mass."""
    dk, dv, mass, lost = held
    dim, q_stride, value_dim, v_stride, g_stride = sizes
    i = n + tl.arange(0, BM)
    q = load_rows(queries, n, rule.queries, dim, q_stride, BM, D, TMA)
    s = times(k, q.T, PRECISION, WIDE)
    level, moved, share, steep = _terms_of(line, step, i, FINE or MASS, STEEP)
    terms = (level[None, :], moved[None, :], share[None, :], steep[None, :])
    dp = s * 0.0
    g = q
    if CHUNKS == 1:
        g = load_rows(outer, n, rule.queries, value_dim, g_stride, BM, DV, TMA)
        dp = times(v, g.T, PRECISION, WIDE)
    elif CHUNKS > 1:
        dp = tl.zeros_like(s)
        for c in tl.static_range(CHUNKS):
            left = value_dim - c * DV
            part = load_rows(outer + c * DV, n, rule.queries, left, g_stride, BM, DV, False)
            other = load_rows(values + c * DV, first, rule.keys, left, v_stride, BN, DV, False)
            dp += times(other, part.T, PRECISION, WIDE)
        g = load_rows(outer + chunk * DV, n, rule.queries, value_dim - chunk * DV, g_stride, BM, DV,
                      False)  # fmt: skip
    p, ds = _turned(s, dp, terms, rule, b, h, i[None, :], j[:, None], first, FAST, MASKED, FINE,
                    STEEP)  # fmt: skip
    if CHUNKS > 0:
        dv += times(p.to(g.dtype), g, PRECISION, WIDE)
    dk += times(ds.to(q.dtype), q, PRECISION, WIDE)
    if MASS:
        if not FINE:
            p = p * share[None, :]
        added = tl.sum(p, 1) - lost
        grown = mass + added
        lost = (grown - mass) - added
        mass = grown
    return dk, dv, mass, lost


@triton.jit
def _key_gradients(
    Q, K, V, G, rule, lines, padded, found_k, found_v, received, q_strides, k_strides, v_strides,
    g_strides, dim, value_dim,
    D: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, FINE: tl.constexpr, STEEP: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """dK and one chunk of dV of one block of keys of one key head."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    MASS: tl.constexpr = received is not None
    first = tl.program_id(0) * BN
    key_heads = rule.heads // rule.group
    unit = tl.program_id(1)
    chunk = tl.program_id(2)
    b = unit // key_heads
    kh = unit % key_heads
    wide = b.to(tl.int64)
    j = first + tl.arange(0, BN)
    inside = j < rule.keys
    values = V + wide * v_strides[0] + kh.to(tl.int64) * v_strides[1]
    k = load_rows(K + wide * k_strides[0] + kh.to(tl.int64) * k_strides[1], first, rule.keys, dim,
                  k_strides[2], BN, D, False)  # fmt: skip
    v = k
    if CHUNKS == 1:
        v = load_rows(values, first, rule.keys, value_dim, v_strides[2], BN, DV, False)
    step = (tl.num_programs(1) * rule.group).to(tl.int64) * padded
    sizes = (dim, q_strides[2], value_dim, v_strides[2], g_strides[2])
    nothing = tl.zeros([BN], ACC)
    dk = tl.zeros([BN, D], ACC)
    dv = tl.zeros([BN, DV], ACC)
    for turn in tl.range(0, rule.group):
        h = kh * rule.group + turn
        high = h.to(tl.int64)
        line = lines + (wide * rule.heads + high) * padded
        queries = source(Q + wide * q_strides[0] + high * q_strides[1], rule.queries, dim,
                         q_strides[2], BM, D, TMA)  # fmt: skip
        outer = source(G + wide * g_strides[0] + high * g_strides[1], rule.queries, value_dim,
                       g_strides[2], BM, DV, TMA)  # fmt: skip
        held = (dk, dv, nothing, nothing)
        start, full, partial, end = query_range(rule, b, first, BM, BN)
        if PLAIN and rule.low is None:
            full, partial = clear_queries(rule, first, full, partial, end, BN)
            for n in tl.range(start, tl.minimum(full, end), BM):
                held = _by_queries(held, n, k, v, values, queries, outer, line, step, rule, sizes,
                                   b, h, j, first, chunk, D, DV, CHUNKS, BM, BN, FAST, True, FINE,
                                   STEEP, MASS, PRECISION, WIDE, TMA)  # fmt: skip
            for n in tl.range(full, partial, BM):
                held = _by_queries(held, n, k, v, values, queries, outer, line, step, rule, sizes,
                                   b, h, j, first, chunk, D, DV, CHUNKS, BM, BN, FAST, False, FINE,
                                   STEEP, MASS, PRECISION, WIDE, TMA)  # fmt: skip
            start = tl.maximum(partial, full)
        if not PLAIN or rule.low is not None or rule.least is not None:
            start, end = query_steps(rule, b, h, first, start, end)
            for place in tl.range(start, end, BM):
                n = query_at(rule, b, h, first, place)
                held = _by_queries(held, n, k, v, values, queries, outer, line, step, rule, sizes,
                                   b, h, j, first, chunk, D, DV, CHUNKS, BM, BN, FAST, True, FINE,
                                   STEEP, MASS, PRECISION, WIDE, TMA)  # fmt: skip
        dk, dv, mass, _lost = held
        if MASS:
            tl.store(received + (wide * rule.heads + high) * rule.keys + j, mass,
                     mask=inside & (j * 0 + chunk == 0))  # fmt: skip
    to = unit.to(tl.int64) * rule.keys + j
    d = tl.arange(0, D)
    tl.store(found_k + to[:, None] * dim + d[None, :], dk * number(rule.scale, dk),
             mask=(inside & (j * 0 + chunk == 0))[:, None] & (d < dim)[None, :])  # fmt: skip
    if CHUNKS > 0:
        c = chunk * DV + tl.arange(0, DV)
        tl.store(found_v + to[:, None] * value_dim + c[None, :], dv,
                 mask=inside[:, None] & (c < value_dim)[None, :])  # fmt: skip


# ── launching ────────────────────────────────────────────────────────────────────────────────


class _SweepShapes(NamedTuple):
    rows: Shape
    columns: Shape


def _shapes(dim: int, dtype: torch.dtype) -> _SweepShapes:
    """Keys have two sums to hold where queries have one, so that wide heads leave less room."""
    wide = dim > 128
    if dtype == torch.float64:
        return _SweepShapes(Shape(32, 16, 4, 1), Shape(16, 16 if wide else 32, 4, 1))
    if dtype == torch.float32:
        return _SweepShapes(Shape(32, 32, 4, 1), Shape(32, 16 if wide else 32, 4, 1))
    if wide:
        return _SweepShapes(Shape(32, 32, 4, 1), Shape(32, 32, 4, 1))
    return _SweepShapes(Shape(128, 64, 8, 3), Shape(64, 64, 4, 2))


def backward(
    bound: Bound,
    state: RowState,
    grad_output: Tensor,
    shift: Tensor,
    slope: Tensor | None,
    mass: bool = False,
    output: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """dQ, dK, dV in the precision computed in, and the mass (B, Hq, S) where asked for. With an
    `output`, gO·o is added to the shift, and gradients have the dtype of their tensors."""
    q, k, v, rule = bound.query, bound.key, bound.value, bound.rule
    dim, value_dim = q.shape[-1], v.shape[-1]
    grads = []
    for t in (q, k, v):
        dtype = bound.exact if output is None else t.dtype
        grads.append(torch.empty(t.shape, dtype=dtype, device=t.device))
    received = bound.new(rule.keys) if mass else None
    g = flat(grad_output.to(v.dtype)) if value_dim else q
    wide = padded(value_dim)
    chunk = min(wide, 64 if bound.exact == torch.float64 else 128)
    chunks = blocks(value_dim, chunk)
    shapes = _shapes(max(padded(dim), chunk), q.dtype)
    tensors = (q, k, v if value_dim else k, g)
    strides = tuple(strides_of(t) for t in tensors)
    fine = q.dtype == bound.exact
    # tiles of wide numbers have no room for what the copy engine brings
    fetched = not fine and chunks == 1 and all(across(t) for t in tensors)
    tall = max(shape.rows for shape in shapes)
    if output is not None and value_dim:
        shift = _multiplied(bound, g, flat(output), shift, chunk)
    terms, padding = _row_terms(bound, state, shift, slope, tall)
    grids = (
        (blocks(rule.queries, shapes.rows.rows), bound.units),
        (blocks(rule.keys, shapes.columns.keys), k.shape[0] * k.shape[1], max(1, chunks)),
    )
    targets: tuple[tuple[Any, ...], ...] = ((grads[0],), (grads[1], grads[2], received))
    rules = rule, query_bounds(rule)
    for kernel, own, shape, to, grid in zip(
        (_query_gradient, _key_gradients), rules, shapes, targets, grids, strict=True
    ):
        if 0 not in grid:
            run(
                kernel, grid, *tensors, own, terms, padding, *to, *strides, dim, value_dim,
                DV=chunk, CHUNKS=chunks, BM=shape.rows, BN=shape.keys, FINE=fine,
                STEEP=slope is not None, TMA=fetched,
                **options(bound, shape),
            )  # fmt: skip
    return grads[0], grads[1], grads[2], received


def _multiplied(bound: Bound, g: Tensor, output: Tensor, shift: Tensor, chunk: int) -> Tensor:
    """(B, Hq, L): the shift with gO·o."""
    rule = bound.rule
    found = bound.new(rule.queries)
    grid = (blocks(rule.queries, _MULTIPLIED), bound.units)
    if 0 not in grid:
        run(
            _products, grid,
            g, output, shift.detach().to(bound.exact).contiguous(), found, strides_of(g),
            strides_of(output), rule.heads, rule.queries, g.shape[-1], ROWS=_MULTIPLIED, DV=chunk,
            CHUNKS=blocks(g.shape[-1], chunk), **EXACT,
        )  # fmt: skip
    return found


def _row_terms(
    bound: Bound, state: RowState, shift: Tensor, slope: Tensor | None, tall: int
) -> tuple[Tensor, int]:
    """(3 or 4, units, padded), and how many rows that is, in whole tiles."""
    queries = bound.rule.queries
    padding = blocks(queries, tall) * tall
    numbers: list[Any] = [
        None if t is None else t.detach().to(bound.exact).contiguous()
        for t in (*state, shift, slope)
    ]
    size = (3 if slope is None else 4, bound.units, padding)
    terms = torch.empty(size, dtype=bound.exact, device=bound.query.device)
    if terms.numel():
        run(
            _prepare, (blocks(padding, _ROWS), bound.units), *numbers, terms, queries, padding,
            BLOCK=_ROWS, **EXACT,
        )  # fmt: skip
    return terms, padding
