# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Sums by distance: sum_e = Σ p_ij over j − i = e − (L − 1).

Square tiles, walked along the block diagonal on which they lie: a place of a tile is on the same
diagonal in all of them, so that tiles are added up as they are, each thread its own numbers, and
only their sum is added along its diagonals. A long walk is cut into parts, so that no sum has many
terms and none starts late. Parts are put together outside; nothing is added atomically.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
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
from regard.engine.backends.gpu.replay import row_terms, weights
from regard.engine.backends.gpu.tile import (
    factor,
    load_keys,
    load_rows,
    log2e,
    meets,
    score,
    source,
    times,
)
from regard.engine.call import RowState

_WALK = 128  # tiles that a program adds up, at least
_PARTS = 8  # of a walk, at most
_JOINED = 256  # diagonals a program puts together


@triton.jit
def _added(held, p, by, KAHAN: tl.constexpr):
    """A tile's weights more, with their rows' shares."""
    sums, lost = held
    if KAHAN:
        added = p * by[:, None] - lost
        grown = sums + added
        lost = (grown - sums) - added
        sums = grown
    else:
        sums = tl.fma(p, tl.zeros_like(p) + by[:, None], sums)
    return sums, lost


@triton.jit
def _weighed(held, x, per, moved, by, KAHAN: tl.constexpr):
    """A tile's scores more."""
    p = tl.exp2(tl.fma(x, tl.zeros_like(x) + per, tl.zeros_like(x) + moved[:, None]))
    return _added(held, p, by, KAHAN)


@triton.jit
def _walked(
    Q, K, rule, terms, chosen, found, q_strides, k_strides, dim, padded, sizes,
    D: tl.constexpr, B: tl.constexpr, KAHAN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Part of one walk, of one head. Walks go out from the middle, which is the longest."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    tall, wide, walk = sizes
    unit = tl.program_id(0)
    turn = tl.program_id(1)
    part = tl.program_id(2)
    away = (turn + 1) // 2  # the block diagonal: block of keys − block of queries
    away = tl.where(turn % 2 == 1, -away, away)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    stride = q_strides[2]
    queries = source(Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1],
                     rule.queries, dim, stride, B, D, TMA)  # fmt: skip
    keys = source(K + b.to(tl.int64) * k_strides[0] + kh * k_strides[1], rule.keys, dim,
                  k_strides[2], B, D, TMA)  # fmt: skip
    shift = terms + unit.to(tl.int64) * padded
    share = shift + tl.num_programs(0).to(tl.int64) * padded
    start = tl.maximum(-away, 0)
    end = tl.minimum(tall, wide - away)
    # a band hides whole diagonals, or none of a tile's: then nothing is masked but the border
    clear = away == away
    if not PLAIN or rule.low is not None or chosen is not None:
        clear = away != away
    if rule.most is not None:
        end = tl.where(away * B - (B - 1) > rule.most, start, end)
        clear &= away * B + (B - 1) <= rule.most
    if rule.least is not None:
        end = tl.where(away * B + (B - 1) < rule.least, start, end)
        clear &= away * B - (B - 1) >= rule.least
    start += part * walk
    end = tl.minimum(end, start + walk)
    # keys beyond the last weigh something unless they are masked
    free = tl.where(clear, tl.minimum(end, rule.keys // B - away), start)
    free = tl.maximum(free, start)
    zero = tl.zeros([B, B], ACC)
    held = (zero, zero)
    r = tl.arange(0, B)
    # one tile behind: powers of the last are taken while the next is multiplied
    x = zero
    moved = tl.zeros([B], ACC)
    by = tl.zeros([B], ACC)
    per = factor(rule, zero, FAST) * log2e(zero)
    for step in tl.range(start, free):
        n = step * B
        first = n + away * B
        q = load_rows(queries, n, rule.queries, dim, stride, B, D, TMA)
        k = load_keys(keys, rule, first, dim, k_strides[2], B, D, TMA)
        s = times(q, k.T, PRECISION, WIDE)
        held = _weighed(held, x, per, moved, by, KAHAN)
        x, _, _, _ = score(s, rule, b, h, (n + r)[:, None], (first + r)[None, :], first, FAST,
                           False)  # fmt: skip
        moved = tl.load(shift + n + r)
        by = tl.load(share + n + r)
    held = _weighed(held, x, per, moved, by, KAHAN)
    for step in tl.range(free, end):
        n = step * B
        first = n + away * B
        if meets(rule, b, n, first, B, B):
            k = load_keys(keys, rule, first, dim, k_strides[2], B, D, TMA)
            p, by = weights(n, k, queries, stride, (shift, share), chosen, rule, dim,
                            (b, h, first, first + r), D, B, FAST, True, PRECISION, WIDE,
                            TMA)  # fmt: skip
            held = _added(held, p, by, KAHAN)
    # row by row from its own offset, round and round: a diagonal stands in a column, those above
    # the middle before the turn and those below it behind
    there = r[:, None] + r[None, :]
    turned = tl.gather(held[0], there % B, 1)
    above = tl.sum(tl.where(there < B, turned, 0.0), 0)
    below = tl.sum(tl.where(there < B, 0.0, turned), 0)
    lines = tall + wide - 1
    line = away + tall - 1
    exists = (r * 0 + line >= 0) & (r * 0 + line < lines)
    at = (part.to(tl.int64) * tl.num_programs(0) + unit) * lines + line
    tl.store(found + at * (2 * B) + r, below, mask=exists)
    tl.store(found + at * (2 * B) + B + r, above, mask=exists)


@triton.jit(do_not_specialize=["lines", "wide", "lead", "parts"])
def _together(sums, found, lines, wide, lead, parts, B: tl.constexpr, BLOCK: tl.constexpr):
    """Of all parts, what two neighbouring block diagonals have of each diagonal."""
    unit = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = e + lead
    line = place // B
    inside = e < wide
    whole = tl.zeros([BLOCK], sums.dtype.element_ty)
    for part in tl.range(0, parts):
        at = (part * tl.num_programs(1).to(tl.int64) + unit) * lines
        upper = (at + line - 1) * (2 * B) + B + place % B
        lower = (at + line) * (2 * B) + place % B
        whole += tl.load(sums + upper, mask=inside & (line > 0), other=0.0)
        whole += tl.load(sums + lower, mask=inside & (line < lines), other=0.0)
    tl.store(found + unit * wide + e, whole, mask=inside)


def diagonals(bound: Bound, state: RowState, chosen: Tensor | None) -> Tensor:
    """(B, Hq, L + S − 1)."""
    rule = bound.rule
    wide = max(rule.queries + rule.keys - 1, 0)
    found = bound.new(wide)
    if 0 in (rule.queries, rule.keys):
        return found.zero_()
    if not bound.units:
        return found
    shape = _shape(bound)
    side = shape.rows
    rows, keys = blocks(rule.queries, side), blocks(rule.keys, side)
    longest = min(rows, keys)
    walk = max(_WALK, blocks(longest, _PARTS))
    parts, lines = blocks(longest, walk), rows + keys - 1
    sums = torch.empty(
        (parts, bound.units, lines, 2 * side), dtype=bound.exact, device=found.device
    )
    terms, padded = row_terms(bound, state, side)
    run(
        _walked, (bound.units, 2 * max(rows, keys) - 1, parts),
        bound.query, bound.key, rule, terms,
        None if chosen is None else chosen.contiguous().view(torch.uint8), sums,
        strides_of(bound.query), strides_of(bound.key), bound.query.shape[-1], padded,
        (rows, keys, walk), B=side, KAHAN=bound.query.dtype == bound.exact,
        TMA=across(bound.query) and across(bound.key), **options(bound, shape),
    )  # fmt: skip
    run(
        _together, (blocks(wide, _JOINED), bound.units),
        sums, found, lines, wide, rows * side - rule.queries + 1, parts, B=side, BLOCK=_JOINED,
        **EXACT,
    )  # fmt: skip
    return found


def _shape(bound: Bound) -> Shape:
    """Square, and as large as registers take: each tile brings both its queries and its keys."""
    wide = padded(bound.query.shape[-1])
    if bound.exact == torch.float64:
        return Shape(32, 32, 4, 1)
    if bound.query.dtype == torch.float32 or wide > 128:
        return Shape(32, 32, 4, 2)
    if not bound.plain or bound.rule.low is not None:
        return Shape(64, 64, 4, 2)  # masks need room
    return Shape(128, 128, 8, 3 if wide <= 64 or _has_room() else 2)


def _has_room() -> bool:
    """Whether three tiles of 64 KiB fit a multiprocessor's shared memory; no number depends on
    it."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
