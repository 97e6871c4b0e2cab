# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Two attentions over the same keys in one sweep: how far they are apart, and what the student's
q and k gain. `regard.divergences` is the definition.

    log P = log Σ_h p_h − z        log Q = u − z′       by the state of every row, and its z
    D = Σ_j value_j    c = Σ_j w_j      w = dD/dlog Q
    dS = g (w − Q c) · d capped/d scaled · scale        dQ = dS K        dK = dSᵀ Q

Two sweeps, in which scores of both sides are computed and kept by neither. The first, on a grid of
query blocks, brings D, c and, where the student learns, dQ of g = 1: g is one number a row, so that
the backward multiplies by it. The second, on a grid of key blocks, brings dK. Each pair of heads is
a program's own: no atomics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backend import PairSide, PairSums
from regard.engine.backends.gpu.bind import Bound, bind, query_bounds
from regard.engine.backends.gpu.launch import (
    EXACT,
    Shape,
    blocks,
    options,
    padded,
    run,
    strides_of,
)
from regard.engine.backends.gpu.tile import (
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

HOWS = ("kl", "reverse_kl", "js", "tv")


class PairTensors(NamedTuple):
    """What kernels read of one side; heads (pairs, n) int32 and z (B, pairs, L). Numbers stand
    beside it: Triton 3.6 loses those of 1 that lie in a tuple in a tuple."""

    query: Any
    key: Any
    peak: Any
    log: Any
    heads: Any
    z: Any


@triton.jit
def _query_tile(side, rule, sizes, b, h, n, BM: tl.constexpr, D: tl.constexpr):
    base = side.query + b.to(tl.int64) * sizes[1] + h.to(tl.int64) * sizes[2]
    return load_rows(base, n, rule.queries, sizes[0], sizes[3], BM, D, False)


@triton.jit
def _key_tile(side, rule, sizes, b, h, first, BN: tl.constexpr, D: tl.constexpr):
    base = side.key + b.to(tl.int64) * sizes[4] + (h // rule.group).to(tl.int64) * sizes[5]
    return load_rows(base, first, rule.keys, sizes[0], sizes[6], BN, D, False)


@triton.jit
def _scores(
    side, rule, q, k, b, h, first, i, j, FAST: tl.constexpr, MASKED: tl.constexpr,
     PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """(log₂ weight, slope, seen) of a tile of one head."""
    s = times(q, k.T, PRECISION, WIDE)
    x, _, slope, seen = score(s, rule, b, h, i[:, None], j[None, :], first, FAST, MASKED)
    row = (b * rule.heads + h).to(tl.int64) * rule.queries
    p_row, l_row = load_state(side.peak, side.log, row + i, i < rule.queries)
    _, u = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
    return u, slope, seen


@triton.jit
def _tiles(side, rule, sizes, stays, b, h, n, first, BY_KEY: tl.constexpr, D: tl.constexpr,
           BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """(queries, keys, the one of them that moves)."""
    if BY_KEY:
        moves = _query_tile(side, rule, sizes, b, h, n, BM, D)
        return moves, stays, moves
    else:
        moves = _key_tile(side, rule, sizes, b, h, first, BN, D)
        return stays, moves, moves


@triton.jit
def _cells(
    both, stays, b, pair, pairs, n, first, BY_KEY: tl.constexpr,
    HOW: tl.constexpr, HEADS: tl.constexpr, DT: tl.constexpr, DS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, FAST_T: tl.constexpr, FAST_S: tl.constexpr,
    MASKED: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """(value, w, Q, slope, moves) of a tile. Of either side one tile stays while the other moves
    on: the queries, or with BY_KEY the keys; the last is the one of the student that moved."""
    teacher, t_rule, t_sizes, student, s_rule, s_sizes = both
    i = n + tl.arange(0, BM)
    j = first + tl.arange(0, BN)
    at = (b * pairs + pair).to(tl.int64) * s_rule.queries + i
    inside = i < s_rule.queries
    z_t = tl.load(teacher.z + at, mask=inside, other=0.0)[:, None]
    z_s = tl.load(student.z + at, mask=inside, other=0.0)[:, None]
    h = tl.load(teacher.heads + pair * HEADS)
    q, k, _moves = _tiles(teacher, t_rule, t_sizes, stays[0], b, h, n, first, BY_KEY, DT, BM, BN)
    u, _slope, seen_t = _scores(teacher, t_rule, q, k, b, h, first, i, j, FAST_T, MASKED, PRECISION,
                           WIDE)  # fmt: skip
    lp = u * ln2(u) - z_t
    if HEADS > 1:
        total = tl.exp2(u)
        for t in tl.range(1, HEADS):
            h = tl.load(teacher.heads + pair * HEADS + t)
            q = _query_tile(teacher, t_rule, t_sizes, b, h, n, BM, DT)
            k = _key_tile(teacher, t_rule, t_sizes, b, h, first, BN, DT)
            u, _slope, _seen = _scores(teacher, t_rule, q, k, b, h, first, i, j, FAST_T, MASKED,
                                       PRECISION, WIDE)  # fmt: skip
            total += tl.exp2(u)
        lp = tl.log2(total) * ln2(u) - z_t
    h = tl.load(student.heads + pair)
    q, k, moves = _tiles(student, s_rule, s_sizes, stays[1], b, h, n, first, BY_KEY, DS, BM, BN)
    u, slope, seen_s = _scores(student, s_rule, q, k, b, h, first, i, j, FAST_S, MASKED, PRECISION,
                               WIDE)  # fmt: skip
    lq = u * ln2(u) - z_s
    p = tl.exp2(lp * log2e(lp))
    qq = tl.exp2(lq * log2e(lq))
    common = seen_t & seen_s
    endless = float("inf")
    if HOW == 0:
        value = tl.where(common & (p > 0), p * (lp - lq), tl.where(seen_t & ~seen_s, endless, 0.0))
        w = tl.where(common, -p, 0.0)
    elif HOW == 1:
        value = tl.where(common & (qq > 0), qq * (lq - lp),
                         tl.where(seen_s & ~seen_t, endless, 0.0))  # fmt: skip
        w = value + qq
    elif HOW == 2:
        apart = tl.exp2(-tl.abs(lp - lq) * log2e(lp))
        middle = tl.maximum(lp, lq) + tl.log2(0.5 + 0.5 * apart) * ln2(lp)
        w = tl.where(qq > 0, 0.5 * qq * (lq - middle), 0.0)
        value = w + tl.where(p > 0, 0.5 * p * (lp - middle), 0.0)
    else:
        value = 0.5 * tl.abs(p - qq)
        w = tl.where(qq > p, 0.5, tl.where(qq < p, -0.5, 0.0)) * qq
    value = tl.where(inside[:, None], value, 0.0)
    return value, w, qq, slope, moves


@triton.jit
def _bent(cells, slope, rule, FAST: tl.constexpr):
    """From final scores to products q·k."""
    if not FAST:
        if rule.softcap is not None:
            cells = cells * slope
    return cells * number(rule.scale, cells)


@triton.jit
def _part(PART: tl.constexpr, start, full, partial, end):
    """(from, to) of the tiles before those that need no mask, of these, and of those behind."""
    if PART == 0:
        return start, tl.minimum(full, end)
    elif PART == 1:
        return full, partial
    else:
        return partial, end


@triton.jit
def _keys_of(one, other, b, n, BM: tl.constexpr, BN: tl.constexpr):
    """(start, full, partial, end): keys that a row of the block sees on one of the sides; between
    full and partial all see all of them on both."""
    start, full, partial, end = key_range(one, b, n, BM, BN)
    start_2, full_2, partial_2, end_2 = key_range(other, b, n, BM, BN)
    start = tl.minimum(start, start_2)
    end = tl.maximum(end, end_2)
    full = tl.maximum(full, full_2)
    return start, full, tl.maximum(tl.minimum(partial, partial_2), full), end


@triton.jit
def _queries_of(one, other, b, first, BM: tl.constexpr, BN: tl.constexpr):
    """The same of the queries that see a key of the block; intervals of rows may leave out any."""
    start, full, partial, end = query_range(one, b, first, BM, BN)
    start_2, full_2, partial_2, end_2 = query_range(other, b, first, BM, BN)
    start = tl.minimum(start, start_2)
    end = tl.maximum(end, end_2)
    full = tl.maximum(full, full_2)
    if one.low is not None:
        full = end
    if other.low is not None:
        full = end
    return start, full, tl.maximum(tl.minimum(partial, partial_2), full), end


@triton.jit
def _row_sums(
    teacher, student, t_rule, s_rule, t_sizes, s_sizes, extra, found, pairs, LEARNS: tl.constexpr,
    HOW: tl.constexpr, HEADS: tl.constexpr, DT: tl.constexpr, DS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, FAST_T: tl.constexpr, FAST_S: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """D, c and dQ of g = 1 of one block of queries of one pair; `extra` is c of a sink."""
    ACC: tl.constexpr = tl.float64 if student.query.dtype.element_ty == tl.float64 else tl.float32
    both = (teacher, t_rule, t_sizes, student, s_rule, s_sizes)
    n = tl.program_id(0) * BM
    b = tl.program_id(1) // pairs
    pair = tl.program_id(1) % pairs
    i = n + tl.arange(0, BM)
    inside = i < s_rule.queries
    at = (b * pairs + pair).to(tl.int64) * s_rule.queries + i
    h_t = tl.load(teacher.heads + pair * HEADS)
    h_s = tl.load(student.heads + pair)
    stays = (
        _query_tile(teacher, t_rule, t_sizes, b, h_t, n, BM, DT),
        _query_tile(student, s_rule, s_sizes, b, h_s, n, BM, DS),
    )
    total = tl.zeros([BM], ACC)
    gains = tl.load(extra + at, mask=inside, other=0.0)
    if LEARNS:
        by_w = tl.zeros([BM, DS], ACC)
        by_q = tl.zeros([BM, DS], ACC)
    start, full, partial, end = _keys_of(t_rule, s_rule, b, n, BM, BN)
    for part in tl.static_range(3):
        low, high = _part(part, start, full, partial, end)
        for first in tl.range(low, high, BN):
            value, w, qq, slope, k = _cells(both, stays, b, pair, pairs, n, first, False, HOW,
                                            HEADS, DT, DS, BM, BN, FAST_T, FAST_S, part != 1,
                                            PRECISION, WIDE)  # fmt: skip
            total += tl.sum(value, 1)
            gains += tl.sum(w, 1)
            if LEARNS:
                by_w += times(_bent(w, slope, s_rule, FAST_S).to(k.dtype), k, PRECISION, WIDE)
                by_q += times(_bent(qq, slope, s_rule, FAST_S).to(k.dtype), k, PRECISION, WIDE)
    tl.store(found.value + at, total, mask=inside)
    tl.store(found.gains + at, gains, mask=inside)
    if LEARNS:
        d = tl.arange(0, DS)
        tl.store(found.query + at[:, None] * s_sizes[0] + d[None, :],
                 (by_w - by_q * gains[:, None]).to(found.query.dtype.element_ty),
                 mask=inside[:, None] & (d < s_sizes[0])[None, :])  # fmt: skip


@triton.jit
def _key_gradient(
    teacher, student, t_rule, s_rule, t_sizes, s_sizes, grad, gains, found, pairs,
    HOW: tl.constexpr, HEADS: tl.constexpr, DT: tl.constexpr, DS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, FAST_T: tl.constexpr, FAST_S: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """dK (B, pairs, S, D) of one block of keys of one pair."""
    ACC: tl.constexpr = tl.float64 if student.query.dtype.element_ty == tl.float64 else tl.float32
    both = (teacher, t_rule, t_sizes, student, s_rule, s_sizes)
    first = tl.program_id(0) * BN
    b = tl.program_id(1) // pairs
    pair = tl.program_id(1) % pairs
    row = (b * pairs + pair).to(tl.int64) * s_rule.queries
    h_t = tl.load(teacher.heads + pair * HEADS)
    h_s = tl.load(student.heads + pair)
    stays = (
        _key_tile(teacher, t_rule, t_sizes, b, h_t, first, BN, DT),
        _key_tile(student, s_rule, s_sizes, b, h_s, first, BN, DS),
    )
    dk = tl.zeros([BN, DS], ACC)
    start, full, partial, end = _queries_of(t_rule, s_rule, b, first, BM, BN)
    for part in tl.static_range(3):
        low, high = _part(part, start, full, partial, end)
        for n in tl.range(low, high, BM):
            _, w, qq, slope, q = _cells(both, stays, b, pair, pairs, n, first, True, HOW, HEADS,
                                        DT, DS, BM, BN, FAST_T, FAST_S, part != 1, PRECISION,
                                        WIDE)  # fmt: skip
            i = n + tl.arange(0, BM)
            inside = i < s_rule.queries
            g = tl.load(grad + row + i, mask=inside, other=0.0)[:, None]
            c = tl.load(gains + row + i, mask=inside, other=0.0)[:, None]
            # rows that nobody asks about may be infinite
            ds = _bent(tl.where(g == 0, 0.0, g * (w - qq * c)), slope, s_rule, FAST_S)
            dk += times(ds.to(q.dtype).T, q, PRECISION, WIDE)
    j = first + tl.arange(0, BN)
    d = tl.arange(0, DS)
    at = (b * pairs + pair).to(tl.int64) * s_rule.keys + j
    tl.store(found + at[:, None] * s_sizes[0] + d[None, :], dk,
             mask=(j < s_rule.keys)[:, None] & (d < s_sizes[0])[None, :])  # fmt: skip


# ── launching ────────────────────────────────────────────────────────────────────────────────


def _operands(
    sides: tuple[PairSide, PairSide], bounds: tuple[Bound, Bound], over_queries: bool
) -> list[Any]:
    """Tensors, rules and sizes of both sides; sizes are the dim, then the strides of q and k."""
    tensors, rules, sizes = [], [], []
    for side, bound in zip(sides, bounds, strict=True):
        peak, log = (part.to(bound.exact).contiguous() for part in side.state)
        z = side.z.to(bound.exact).contiguous()
        tensors.append(PairTensors(bound.query, bound.key, peak, log, side.heads.contiguous(), z))
        rules.append(query_bounds(bound.rule) if over_queries else bound.rule)
        sizes.append((bound.query.shape[-1], *strides_of(bound.query), *strides_of(bound.key)))
    return [*tensors, *rules, *sizes]


def pair_reasons(how: str, teacher: PairSide, student: PairSide) -> list[str]:
    """What the kernels do not do."""
    one, other = bind(teacher.call), bind(student.call)
    limits = {
        "of masks it knows bands and intervals only": not (one.plain and other.plain),
        "keys in a cache": any(b.rule.key_rows is not None for b in (one, other)),
        "two dtypes": one.query.dtype != other.query.dtype,
        "a student's distribution made of several heads": student.heads.shape[1] > 1,
        # the logarithm of a sum that is too small for a float
        "reverse_kl from several heads": how == "reverse_kl" and teacher.heads.shape[1] > 1,
    }
    return [said for said, so in limits.items() if so]


def pair_sums(
    how: str, teacher: PairSide, student: PairSide, extra: Tensor, learns: bool
) -> PairSums:
    """D, what log Q of a row gains in all, and dQ of a gradient of 1."""
    bounds = bind(teacher.call), bind(student.call)
    bound, pairs = bounds[1], len(student.heads)
    size = (bound.query.shape[0], pairs, bound.rule.queries)
    value, gains = (torch.empty(size, dtype=bound.exact, device=bound.query.device)
                    for _ in range(2))  # fmt: skip
    query = bound.query.new_empty((*size, bound.query.shape[-1] if learns else 0))
    found = PairSums(value, gains, query)
    shape = _shape(bounds, by_key=False)
    grid = (blocks(bound.rule.queries, shape.rows), size[0] * pairs)
    if 0 not in grid:
        run(
            _row_sums, grid, *_operands((teacher, student), bounds, False),
            extra.to(bound.exact).contiguous(), found, pairs, LEARNS=learns,
            **_options(how, teacher.heads.shape[1], bounds, shape),
        )  # fmt: skip
    return found


def pair_key_gradient(
    how: str, teacher: PairSide, student: PairSide, grad: Tensor, gains: Tensor
) -> Tensor:
    """(B, pairs, S, D)."""
    bounds = bind(teacher.call), bind(student.call)
    bound, pairs = bounds[1], len(student.heads)
    size = (bound.query.shape[0], pairs, bound.rule.keys, bound.query.shape[-1])
    found = torch.empty(size, dtype=bound.exact, device=bound.query.device)
    shape = _shape(bounds, by_key=True)
    grid = (blocks(bound.rule.keys, shape.keys), size[0] * pairs)
    if 0 not in grid:
        numbers = [t.to(bound.exact).contiguous() for t in (grad, gains)]
        run(
            _key_gradient, grid, *_operands((teacher, student), bounds, True), *numbers, found,
            pairs, **_options(how, teacher.heads.shape[1], bounds, shape),
        )  # fmt: skip
    return found


def _shape(bounds: tuple[Bound, Bound], by_key: bool) -> Shape:
    """By dims and dtype alone."""
    dim = max(padded(bound.query.shape[-1]) for bound in bounds)
    wide = bounds[1].query.element_size()
    if wide > 2 or dim > 128:
        return Shape(16, 16, 4, 1) if wide * dim > 1024 else Shape(32, 32, 4, 1)
    return Shape(64, 64, 4, 2) if by_key else Shape(128, 64, 8, 2)


def _options(how: str, heads: int, bounds: tuple[Bound, Bound], shape: Shape) -> dict[str, Any]:
    one, other = bounds
    dims = one.query.shape[-1], other.query.shape[-1]
    common = options(other, shape)
    kept = {name: common[name] for name in ("PRECISION", "WIDE", "num_warps", "num_stages")}
    return kept | {
        "HOW": HOWS.index(how), "HEADS": heads, "DT": padded(*dims),
        "DS": padded(*dims[::-1]), "BM": shape.rows, "BN": shape.keys,
        "FAST_T": one.fast, "FAST_S": other.fast, **EXACT,
    }  # fmt: skip
