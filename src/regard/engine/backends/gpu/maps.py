# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""A pooled map's cells in one tile of weights, for `replay`.

A product leaves a warp 16 queries, a strip; a thread of it two of these, 8 apart, and of each two
keys in every 8. So all threads of a warp hold something of every cell. What a thread holds of a
cell it puts together first. Then threads exchange: of two, each sends half of its cells and goes on
with the other half, until every thread has one cell of all, and writes it from there.
"""

from __future__ import annotations

import triton
import triton.language as tl

STRIP = tl.constexpr(16)  # queries of one warp
WIDEST = tl.constexpr(64)  # keys of a strip, where cells are no smaller


@triton.jit
def larger(a, b):
    """NaN where either is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def reduced(x, axis: tl.constexpr, LARGEST: tl.constexpr):
    """The sum or the largest along an axis."""
    if LARGEST:
        return tl.max(x, axis)
    else:
        return tl.sum(x, axis)


@triton.jit
def pairs_of(p, share, BM: tl.constexpr, BN: tl.constexpr, LARGEST: tl.constexpr):
    """(BM, BN) → (BM/16, 8, BN): queries 8 apart, which one thread holds, with their shares."""
    first, second = tl.split(tl.permute(tl.reshape(p, [BM // 16, 2, 8, BN]), 0, 2, 3, 1))
    by = tl.permute(tl.reshape(share, [BM // 16, 2, 8]), 0, 2, 1)
    by_first, by_second = tl.split(by)
    weighed = first * by_first[:, :, None]
    if LARGEST:
        return larger(weighed, second * by_second[:, :, None])
    else:
        return tl.fma(second, tl.zeros_like(second) + by_second[:, :, None], weighed)


@triton.jit
def _met(x, LARGEST: tl.constexpr):
    """(N, V, L, R) → (N, V/2, L/2, 2·R): of two threads next to each other one goes on with the
    even values and the other with the odd ones. Each sends the half that it does not keep; where
    there is one value, both go on with it."""
    N: tl.constexpr = x.shape[0]
    V: tl.constexpr = x.shape[1]
    L: tl.constexpr = x.shape[2] // 2
    R: tl.constexpr = x.shape[3]
    BITS: tl.constexpr = tl.int64 if x.dtype == tl.float64 else tl.int32
    if V == 1:
        kept = tl.reshape(x, [N, 1, L, 2, R])
        sent = kept
    else:
        pairs = tl.permute(tl.reshape(x, [N, V // 2, 2, L, 2, R]), 0, 1, 3, 4, 5, 2)
        even, odd = tl.split(pairs)
        second = tl.reshape(tl.arange(0, 2), [1, 1, 1, 2, 1]) == 1
        kept = tl.where(second, odd, even)
        sent = tl.where(second, even, odd)
    # what both sent, without one's own: what the other sent. It compiles to one exchange
    bits = sent.to(BITS, bitcast=True)
    came = (tl.xor_sum(bits, 3, keep_dims=True) ^ bits).to(x.dtype, bitcast=True)
    whole = tl.maximum(kept, came) if LARGEST else kept + came
    return tl.reshape(whole, [N, max(V // 2, 1), L, 2 * R])


@triton.jit
def _over_threads(x, LARGEST: tl.constexpr):
    """(N, V, L, R) → (N, V/L, 1, L·R): over L, which is threads of a warp; each has V values. To
    put every value together in all threads would take V·log₂ L exchanges: these are about V.
    Where L is larger, whatever there is of V stands there V/L times."""
    if x.shape[2] == 1:
        return x
    else:
        return _over_threads(_met(x, LARGEST), LARGEST)


@triton.jit
def _strips(c, STRIPS: tl.constexpr, BN: tl.constexpr, ACROSS: tl.constexpr,
            LARGEST: tl.constexpr):  # fmt: skip
    """(STRIPS, 8, BN) → (STRIPS, 32), again and again BN/ACROSS: what a thread holds first, then
    its neighbours."""
    c = reduced(tl.reshape(c, [STRIPS, 8, BN // ACROSS, ACROSS // 8, 4, 2]), 5, LARGEST)
    c = tl.permute(reduced(c, 3, LARGEST), 0, 2, 1, 3)
    c = _over_threads(tl.reshape(c, [STRIPS, BN // ACROSS, 32, 1]), LARGEST)
    return tl.reshape(c, [STRIPS, 32])


@triton.jit
def _eights(p, by, BM: tl.constexpr, BN: tl.constexpr, LARGEST: tl.constexpr):
    """(BM, BN) → twice (BM/16, 32), again and again BN/8: cells of 8 × 8, those of the first eight
    queries of every strip and those of the others. First the threads of a row, which have one
    share, then rows."""
    c = tl.reshape(reduced(tl.reshape(p, [BM, BN // 8, 4, 2]), 3, LARGEST), [BM, BN // 8, 4, 1])
    c = _over_threads(c, LARGEST)
    V: tl.constexpr = c.shape[1]
    c = tl.reshape(c, [BM, V, 4]) * by[:, None, None]
    c = tl.permute(tl.reshape(c, [BM // 8, 8, V, 4]), 0, 2, 1, 3)
    c = tl.reshape(_over_threads(c, LARGEST), [BM // 16, 2, 32])
    return tl.split(tl.permute(c, 0, 2, 1))


@triton.jit
def _tiny(p, by, BM: tl.constexpr, BN: tl.constexpr, CELL: tl.constexpr, LARGEST: tl.constexpr):
    """(BM, BN) → (BM/CELL, BN/CELL), of smaller cells. A thread has one of the cells beside each
    other in 8 keys, so these wait behind the queries."""
    if CELL == 1:
        return p * by[:, None]
    elif BN < 4 * CELL * CELL:  # a thread has too little to exchange
        c = tl.reshape(p * by[:, None], [BM // CELL, CELL, BN // CELL, CELL])
        return reduced(reduced(c, 3, LARGEST), 1, LARGEST)
    else:
        SIDE: tl.constexpr = 8 // CELL
        c = reduced(tl.reshape(p, [BM, BN // 8, SIDE, CELL // 2, 2]), 4, LARGEST)
        c = tl.reshape(tl.permute(c, 0, 2, 1, 3), [BM * SIDE, BN // 8, CELL // 2, 1])
        c = _over_threads(c, LARGEST)
        V: tl.constexpr = c.shape[1]
        R: tl.constexpr = c.shape[3]
        c = tl.reshape(c, [BM, SIDE, V, R]) * by[:, None, None, None]
        c = tl.permute(tl.reshape(c, [BM // CELL, CELL, SIDE, V, R]), 0, 2, 3, 1, 4)
        c = _over_threads(tl.reshape(c, [BM // CELL * SIDE, V, CELL, R]), LARGEST)
        c = tl.permute(tl.reshape(c, [BM // CELL, SIDE, BN // 8]), 0, 2, 1)
        return tl.reshape(c, [BM // CELL, BN // CELL])


@triton.jit
def _put(
    part, down, across, inside, cells, rule, sizes, LARGEST: tl.constexpr, WHOLE: tl.constexpr
):
    """Written where it belongs: a strip, or a cell, whose mean is over what lies inside."""
    cell, tall, wide = sizes
    if WHOLE and not LARGEST:
        height = tl.maximum(tl.minimum(cell, rule.queries - down * cell), 1).to(part.dtype)
        side = tl.maximum(tl.minimum(cell, rule.keys - across * cell), 1).to(part.dtype)
        part = part * (1.0 / height)[:, None] * (1.0 / side)[None, :]
    inside &= across < wide
    tl.store(cells + down.to(tl.int64)[:, None] * wide + across[None, :], part,
             mask=(down < tall)[:, None] & inside[None, :])  # fmt: skip


@triton.jit
def draw(
    square, n, p, by, pairs, cells, rule, sizes, first,
    BM: tl.constexpr, BN: tl.constexpr, CELL: tl.constexpr, SEVERAL: tl.constexpr,
    LARGEST: tl.constexpr,
):  # fmt: skip
    """The cells of a tile are written, or its strips. Where it is only part of a cell, what was
    there before is carried along, and what is written last is the whole."""
    ACROSS: tl.constexpr = min(CELL, WIDEST)
    MANY: tl.constexpr = min(BN // ACROSS, 32)
    lane = tl.arange(0, 32)
    across = first // ACROSS + lane % MANY
    if CELL < 8:
        part = _tiny(p, by, BM, BN, CELL, LARGEST)
        down = n // CELL + tl.arange(0, BM // CELL)
        across = first // CELL + tl.arange(0, BN // CELL)
        _put(part, down, across, across >= 0, cells, rule, sizes, LARGEST, CELL > 1)
    elif CELL < STRIP:
        upper, lower = _eights(p, by, BM, BN, LARGEST)
        down = n // 8 + tl.arange(0, BM // 16) * 2
        _put(upper, down, across, lane < MANY, cells, rule, sizes, LARGEST, True)
        _put(lower, down + 1, across, lane < MANY, cells, rule, sizes, LARGEST, True)
    else:
        if LARGEST:
            pairs = pairs_of(p, by, BM, BN, True)
        part = _strips(pairs, BM // STRIP, BN, ACROSS, LARGEST)
        block = n // BM
        if SEVERAL:
            before = tl.where(n % sizes[0] == 0, 0.0, square)
            part = tl.maximum(before, part) if LARGEST else before + part
            block = n // sizes[0]
            square = part
        down = block * (BM // STRIP) + tl.arange(0, BM // STRIP)
        _put(part, down, across, lane < MANY, cells, rule, sizes, LARGEST, CELL == STRIP)
    return square
