# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The backward sweep, weights computed again from (peak, log):

    dP = gO Vᵀ        dS = p (dP − shift − slope·(s − lse)) · d capped/d scaled · scale
    dQ = dS K         dK = dSᵀ Q         dV = pᵀ gO

dQ on a grid of query blocks; dK and dV on a grid of key blocks, which walks the queries of every
head of the group, so that shared heads add up in order: no atomics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.gpu.bind import Bound, flat
from regard.engine.gpu.launch import Shape, blocks, options, padded, strides_of
from regard.engine.gpu.running import run
from regard.engine.gpu.tile import (
    factor,
    key_range,
    ln2,
    load_rows,
    load_state,
    log2e,
    number,
    query_range,
    score,
    times,
    weight,
)
from regard.engine.problem import RowState

__all__ = ["backward"]


@triton.jit
def _score_gradient(p, u, dp, shift, slope, bent, rule, NATURAL: tl.constexpr):
    """dS from the weights p and their exponents u; shift and slope broadcast along the keys."""
    inner = dp - shift
    if NATURAL:  # the entropy takes part
        inner -= slope * tl.where(p > 0, u * ln2(u), 0.0)
    ds = tl.where(p > 0, p * inner, 0.0)
    if rule.softcap is not None:
        ds = ds * bent
    return ds * number(rule.scale, p)


@triton.jit
def _query_gradient(
    Q, K, V, G, rule, peak, log, shift, slope, found, q_strides, k_strides, v_strides, g_strides,
    dim, value_dim,
    D: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
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
    inside = i < rule.queries
    at = unit.to(tl.int64) * rule.queries + i
    queries = Q + wide * q_strides[0] + high * q_strides[1]
    keys = K + wide * k_strides[0] + kh * k_strides[1]
    values = V + wide * v_strides[0] + kh * v_strides[1]
    outer = G + wide * g_strides[0] + high * g_strides[1]
    q = load_rows(queries, first, rule.queries, dim, q_strides[2], BM, D, False)
    g = q
    if CHUNKS == 1:
        g = load_rows(outer, first, rule.queries, value_dim, g_strides[2], BM, DV, False)
    p_row, l_row = load_state(peak, log, at, inside)
    moved = tl.load(shift + at, mask=inside, other=0.0)
    steep = moved
    if slope is not None:
        steep = tl.load(slope + at, mask=inside, other=0.0)
    dq = tl.zeros([BM, D], ACC)
    start, _full, _partial, end = key_range(rule, b, first, BM, BN)
    for n in tl.range(start, end, BN):
        j = n + tl.arange(0, BN)
        k = load_rows(keys, n, rule.keys, dim, k_strides[2], BN, D, False)
        s = times(q, k.T, PRECISION, WIDE)
        x, _, bent, _ = score(s, rule, b, h, i[:, None], j[None, :], FAST, True)
        p, u = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
        dp = tl.zeros([BM, BN], ACC)
        for c in tl.static_range(CHUNKS):
            part = g
            if CHUNKS > 1:
                part = load_rows(outer + c * DV, first, rule.queries, value_dim - c * DV,
                                 g_strides[2], BM, DV, False)  # fmt: skip
            v = load_rows(values + c * DV, n, rule.keys, value_dim - c * DV, v_strides[2], BN, DV,
                          False)  # fmt: skip
            dp += times(part, v.T, PRECISION, WIDE)
        ds = _score_gradient(p, u, dp, moved[:, None], steep[:, None], bent, rule,
                             slope is not None)  # fmt: skip
        dq += times(ds.to(k.dtype), k, PRECISION, WIDE)
    d = tl.arange(0, D)
    tl.store(found + at[:, None] * dim + d[None, :], dq, mask=inside[:, None] & (d < dim)[None, :])


@triton.jit
def _key_gradients(
    Q, K, V, G, rule, peak, log, shift, slope, found_k, found_v, q_strides, k_strides, v_strides,
    g_strides, dim, value_dim,
    D: tl.constexpr, DV: tl.constexpr, CHUNKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """dK and one chunk of dV of one block of keys of one key head."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
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
    dk = tl.zeros([BN, D], ACC)
    dv = tl.zeros([BN, DV], ACC)
    start, _full, _partial, end = query_range(rule, first, BM, BN)
    tiles = tl.maximum(tl.cdiv(end - start, BM), 0)
    for turn in tl.range(0, tiles * rule.group):
        h = kh * rule.group + turn // tiles
        n = start + turn % tiles * BM
        i = n + tl.arange(0, BM)
        row = i < rule.queries
        at = (wide * rule.heads + h) * rule.queries + i
        q = load_rows(Q + wide * q_strides[0] + h.to(tl.int64) * q_strides[1], n, rule.queries,
                      dim, q_strides[2], BM, D, False)  # fmt: skip
        s = times(k, q.T, PRECISION, WIDE)
        x, _, bent, _ = score(s, rule, b, h, i[None, :], j[:, None], FAST, True)
        p_row, l_row = load_state(peak, log, at, row)
        p, u = weight(x, factor(rule, s, FAST) * log2e(s), p_row[None, :], l_row[None, :])
        outer = G + wide * g_strides[0] + h.to(tl.int64) * g_strides[1]
        dp = tl.zeros([BN, BM], ACC)
        for c in tl.static_range(CHUNKS):
            g = load_rows(outer + c * DV, n, rule.queries, value_dim - c * DV, g_strides[2], BM,
                          DV, False)  # fmt: skip
            part = v
            if CHUNKS > 1:
                part = load_rows(values + c * DV, first, rule.keys, value_dim - c * DV,
                                 v_strides[2], BN, DV, False)  # fmt: skip
            dp += times(part, g.T, PRECISION, WIDE)
            if c == chunk:
                dv += times(p.to(g.dtype), g, PRECISION, WIDE)
        moved = tl.load(shift + at, mask=row, other=0.0)
        steep = moved
        if slope is not None:
            steep = tl.load(slope + at, mask=row, other=0.0)
        ds = _score_gradient(p, u, dp, moved[None, :], steep[None, :], bent, rule,
                             slope is not None)  # fmt: skip
        dk += times(ds.to(q.dtype), q, PRECISION, WIDE)
    to = unit.to(tl.int64) * rule.keys + j
    d = tl.arange(0, D)
    tl.store(found_k + to[:, None] * dim + d[None, :], dk,
             mask=(inside & (j * 0 + chunk == 0))[:, None] & (d < dim)[None, :])  # fmt: skip
    if CHUNKS > 0:
        c = chunk * DV + tl.arange(0, DV)
        tl.store(found_v + to[:, None] * value_dim + c[None, :], dv,
                 mask=inside[:, None] & (c < value_dim)[None, :])  # fmt: skip


class _Both(NamedTuple):
    rows: Shape
    columns: Shape


def _shapes(dim: int, dtype: torch.dtype) -> _Both:
    if dtype == torch.float64:
        return _Both(Shape(32, 16, 4, 1), Shape(16, 32, 4, 1))
    if dtype == torch.float32 or dim > 128:
        return _Both(Shape(32, 32, 4, 1), Shape(32, 32, 4, 1))
    return _Both(Shape(128, 64, 8, 2), Shape(64, 128, 8, 2))


def backward(
    bound: Bound, state: RowState, grad_output: Tensor, shift: Tensor, slope: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK, dV in the precision computed in."""
    q, k, v, rule = bound.query, bound.key, bound.value, bound.rule
    dim, value_dim = q.shape[-1], v.shape[-1]
    grads = [bound.new(rule.queries, dim)]
    for width in (dim, value_dim):
        grads.append(torch.empty((*k.shape[:3], width), dtype=bound.exact, device=k.device))
    numbers = [*state, shift, *([] if slope is None else [slope])]
    rows: list[Any] = [t.detach().to(bound.exact).contiguous() for t in numbers]
    g = flat(grad_output.to(v.dtype)) if value_dim else q
    wide = padded(value_dim)
    chunk = min(wide, 64 if bound.exact == torch.float64 else 128)
    chunks = blocks(value_dim, chunk)
    shapes = _shapes(max(padded(dim), chunk), q.dtype)
    tensors = (q, k, v if value_dim else k, g)
    strides = tuple(strides_of(t) for t in tensors)
    told = (*rows, *([None] if slope is None else []))
    grids = (
        (blocks(rule.queries, shapes.rows.rows), bound.units),
        (blocks(rule.keys, shapes.columns.keys), k.shape[0] * k.shape[1], max(1, chunks)),
    )
    for kernel, shape, targets, grid in zip(
        (_query_gradient, _key_gradients), shapes, (grads[:1], grads[1:]), grids, strict=True
    ):
        if 0 not in grid:
            run(
                kernel, grid,
                *tensors, rule, *told, *targets, *strides, dim, value_dim, DV=chunk,
                CHUNKS=chunks, BM=shape.rows, BN=shape.keys, **options(bound, shape),
            )  # fmt: skip
    return grads[0], grads[1], grads[2]
