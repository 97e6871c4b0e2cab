# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The forward sweep: output, lse and every statistic that is one number a row, in one pass.

With u = s − m against the running maximum m, δ = m_old − m_new and a = e^δ:

    l ← a·l + Σ e^u                 total          t ← a·(t + δ·l) + Σ u·e^u     centred
    q ← a²·q + Σ e^{2u}             squares        d ← a·d + Σ |i − j|·e^u       away
    o ← a·o + e^u @ V               context        H = log l − t / l             entropy

The sink joins at the end, as one more key. (In base 2: 2^x is what the hardware has.)
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.launch import (
    across,
    blocks,
    options,
    padded,
    row_shape,
    run,
    strides_of,
    value_chunk,
)
from regard.engine.backends.gpu.tile import (
    FLOOR,
    HIDDEN,
    LOWEST,
    factor,
    key_at,
    key_range,
    key_steps,
    ln2,
    load_keys,
    load_rows,
    log2e,
    score,
    source,
    stands_at,
    times,
)
from regard.engine.call import RowState


@triton.jit
def fold(
    state, n, q, keys, values, rule, sizes, b, h, i, asked, at, size,
    D: tl.constexpr, DV: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One key tile, folded into a block of rows. `at` is where what is kept of each row begins:
    maxima of blocks, `size` apart, or scores, as many as `size`."""
    context, top, total, centred, squares, away, raw, count = state
    j = n + tl.arange(0, BN)
    k = load_keys(keys, rule, n, sizes[0], sizes[1], BN, D, TMA)
    s = times(q, k.T, PRECISION, WIDE)
    x, scaled, _, seen = score(s, rule, b, h, i[:, None], j[None, :], n, FAST, MASKED)
    times_x = factor(rule, s, FAST)
    unit = log2e(s)
    per = times_x * unit
    if asked.scores is not None:  # for `few`
        tl.store(asked.scores + at[:, None] + j[None, :], x,
                 mask=(i < rule.queries)[:, None] & (j < size)[None, :])  # fmt: skip
    if asked.maxima is not None:  # of 64 keys each, for `prune`
        PER: tl.constexpr = BN // 64
        most = tl.max(tl.reshape(x, [x.shape[0], PER, 64]), 2)
        block = n // 64 + tl.arange(0, PER)
        place = at[:, None] + block.to(tl.int64)[None, :] * size
        tl.store(asked.maxima + place, most, mask=(block * 64 < rule.keys)[None, :]
                 & (i < rule.queries)[:, None])  # fmt: skip
        new = tl.maximum(top, tl.max(most, 1))
    else:
        new = tl.maximum(top, tl.max(x, 1))
    m = (new * times_x) * unit
    delta = (top * times_x) * unit - m
    a = tl.exp2(delta)
    u = tl.fma(x, tl.zeros_like(x) + per, tl.zeros_like(x) - m[:, None])
    p = tl.exp2(u)
    if asked.entropy is not None:
        centred = a * (centred + delta * total) + tl.sum(p * u, 1)
    total = a * total + tl.sum(p, 1)
    if asked.squares is not None:
        squares = a * a * squares + tl.sum(p * p, 1)
    if asked.away is not None:
        distance = tl.abs(stands_at(rule, i)[:, None] - j[None, :]).to(p.dtype)
        away = a * away + tl.sum(p * distance, 1)
    if asked.raw is not None and not FAST:
        visible = scaled
        if MASKED:
            visible = tl.where(seen, scaled, HIDDEN)
        raw = tl.maximum(raw, tl.max(visible, 1))
    if asked.visible is not None:
        if MASKED:
            count += tl.sum(seen.to(tl.int32), 1)
        else:
            count += BN
    if asked.output is not None:
        v = load_rows(values, n, rule.keys, sizes[2], sizes[3], BN, DV, TMA)
        context = context * a[:, None] + times(p.to(v.dtype), v, PRECISION, WIDE)
    return context, new, total, centred, squares, away, raw, count


@triton.jit
def finish(
    state, rule, asked, peak_out, log_out, given_peak, given_log, h, at, inside, chunk, value_dim,
    FAST: tl.constexpr,
):  # fmt: skip
    """The sink joins; then everything that was asked of some rows is written at `at`."""
    context, top, total, centred, squares, away, raw, count = state
    DV: tl.constexpr = context.shape[1]
    mine = inside & (at * 0 + chunk == 0)
    bad = total != total
    seen_none = total == 0
    top = top * factor(rule, top, FAST)
    unit_e = log2e(top)
    unit_2 = ln2(top)
    m = top * unit_e
    largest = tl.where(seen_none, -float("inf"), tl.where(bad, total, top))
    largest = tl.where(largest == LOWEST, -3.4028234e38, largest)
    if asked.logit is not None:
        tl.store(asked.logit + at, largest, mask=mine)
    if asked.raw is not None:
        if not FAST:
            raw = tl.where(seen_none, -float("inf"), tl.where(bad, total, raw))
            tl.store(asked.raw + at, raw, mask=mine)
        else:
            tl.store(asked.raw + at, largest, mask=mine)
    shrink = tl.zeros_like(total) + 1.0
    if rule.sink is not None:
        sink = tl.zeros_like(total) + tl.load(rule.sink + h)
        base = tl.maximum(tl.where(seen_none, sink, top), sink)
        gone = base == -float("inf")  # nothing seen, and a sink that weighs nothing
        level = tl.where(gone, 0.0, base * unit_e)
        delta = tl.where(seen_none, 0.0, m - level)
        shrink = tl.where(seen_none, 0.0, tl.exp2(delta))
        extra = tl.exp2(sink * unit_e - level)
        gap = tl.where(extra > 0, sink * unit_e - level, 0.0)
        centred = shrink * (centred + delta * total) + extra * gap
        total = shrink * total + extra
        largest = tl.where(gone, largest, tl.where(bad, largest, base))
        m = level
    empty = total == 0
    log = tl.where(empty, 0.0, tl.log2(tl.where(empty, 1.0, total)))
    natural = log * unit_2
    tl.store(peak_out + at, largest, mask=mine)
    tl.store(log_out + at, natural, mask=mine)
    if asked.entropy is not None:
        entropy = (log - centred / tl.where(empty, 1.0, total)) * unit_2
        tl.store(asked.entropy + at, tl.where(empty, 0.0, entropy), mask=mine)
    share = tl.where(empty, 0.0, shrink / tl.where(empty, 1.0, total))
    if given_peak is not None:
        to = tl.load(given_peak + at, mask=inside, other=0.0)
        to_log = tl.load(given_log + at, mask=inside, other=0.0)
        other = tl.exp2((m - tl.maximum(to, LOWEST) * unit_e) - to_log * unit_e)
        other = tl.where((to == -float("inf")) | seen_none, 0.0, other) * shrink
        # a total is known better than its logarithm, and its own it knows
        share = tl.where((to == largest) & (to_log == natural), share, other)
    if asked.squares is not None:
        tl.store(asked.squares + at, squares * share * share, mask=mine)
    if asked.away is not None:
        tl.store(asked.away + at, away * share, mask=mine)
    if asked.visible is not None:
        tl.store(asked.visible + at, count, mask=mine)
    if asked.output is not None:
        c = chunk * DV + tl.arange(0, DV)
        where = asked.output + at[:, None] * value_dim + c[None, :]
        context = (context * share[:, None]).to(asked.output.dtype.element_ty)
        tl.store(where, context, mask=inside[:, None] & (c < value_dim)[None, :])


@triton.jit(do_not_specialize=["base"])
def _forward(
    Q, K, V, rule, asked, peak_out, log_out, given_peak, given_log, q_strides, k_strides,
    v_strides, dim, value_dim, base, tall,
    D: tl.constexpr, DV: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr,
    PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head, one chunk of its values."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    # under a causal mask, the long ones first
    block = base + tl.num_programs(0) - 1 - tl.program_id(0)
    unit = tl.program_id(1)
    chunk = tl.program_id(2)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    first = block * BM
    i = first + tl.arange(0, BM)
    wide = b.to(tl.int64)
    queries = source(Q + wide * q_strides[0] + h.to(tl.int64) * q_strides[1], rule.queries, dim,
                     q_strides[2], BM, D, TMA)  # fmt: skip
    keys = source(K + wide * k_strides[0] + kh * k_strides[1], rule.keys, dim, k_strides[2], BN, D,
                  TMA)  # fmt: skip
    left = value_dim - chunk * DV
    values = K
    if asked.output is not None:
        values = source(V + wide * v_strides[0] + kh * v_strides[1] + chunk * DV, rule.keys, left,
                        v_strides[2], BN, DV, TMA)  # fmt: skip
    q = load_rows(queries, first, rule.queries, dim, q_strides[2], BM, D, TMA)
    sizes = (dim, k_strides[2], left, v_strides[2])
    zero = tl.zeros([BM], ACC)
    state = (tl.zeros([BM, DV], ACC), zero + FLOOR, zero, zero, zero, zero, zero + FLOOR,
             tl.zeros([BM], tl.int32))  # fmt: skip
    start, full, partial, end = key_range(rule, b, first, BM, BN)
    # maxima are (units, blocks of keys, rows of this launch)
    blocks_at = unit.to(tl.int64) * tl.cdiv(rule.keys, 64) * tall + (i - base * BM)
    if PLAIN:
        if rule.least is not None or rule.low is not None:
            for n in tl.range(start, tl.minimum(full, end), BN):
                state = fold(state, n, q, keys, values, rule, sizes, b, h, i, asked, blocks_at,
                             tall, D, DV, BN, FAST, True, PRECISION, WIDE, TMA)  # fmt: skip
        for n in tl.range(full, partial, BN):
            state = fold(state, n, q, keys, values, rule, sizes, b, h, i, asked, blocks_at,
                         tall, D, DV, BN, FAST, False, PRECISION, WIDE, TMA)  # fmt: skip
        start = partial
    start, end = key_steps(rule, b, h, first, start, end)
    for step in tl.range(start, end, BN):
        n = key_at(rule, b, h, first, step)
        state = fold(state, n, q, keys, values, rule, sizes, b, h, i, asked, blocks_at,
                     tall, D, DV, BN, FAST, True, PRECISION, WIDE, TMA)  # fmt: skip
    at = unit.to(tl.int64) * rule.queries + i
    finish(state, rule, asked, peak_out, log_out, given_peak, given_log, h, at, i < rule.queries,
           chunk, value_dim, FAST)  # fmt: skip


class Asked(NamedTuple):
    """Where to write; None where nobody asks."""

    output: Tensor | None
    entropy: Tensor | None
    raw: Tensor | None
    logit: Tensor | None
    squares: Tensor | None
    away: Tensor | None
    visible: Tensor | None
    maxima: Tensor | None
    scores: Tensor | None = None

    @classmethod
    def of(cls, found: Found, output: Tensor | None, maxima: Tensor | None) -> Asked:
        """The places of what was found."""
        numbers = {name: found.numbers.get(name) for name in cls._fields[1:-2]}
        return cls(output=output, maxima=maxima, **numbers)


class Found(NamedTuple):
    """What a forward sweep wrote, (B, Hq, L) each."""

    output: Tensor | None
    state: RowState
    numbers: dict[str, Tensor]


class Watcher(Protocol):
    """Who wants the largest score of every 64 keys, some rows at a time."""

    tall: int  # rows at a time

    def see(self, maxima: Tensor, start: int, state: RowState) -> None:
        """(units, ⌈S/64⌉, tall), for rows from `start` on, whose state is known by now; blocks
        that nobody sees hold rubbish."""
        ...


def new_found(bound: Bound, output: bool, names: set[str]) -> Found:
    """Unwritten."""
    rows, value_dim = bound.rule.queries, bound.value.shape[-1]
    made = bound.new(rows, value_dim, dtype=bound.value.dtype) if output else None
    kinds = {name: torch.int32 if name == "visible" else bound.exact for name in names}
    numbers: dict[str, Tensor] = {n: bound.new(rows, dtype=kind) for n, kind in kinds.items()}
    return Found(made, RowState(bound.new(rows), bound.new(rows)), numbers)


def forward(
    bound: Bound,
    output: bool,
    names: set[str],
    given: RowState | None,
    watcher: Watcher | None = None,
) -> Found:
    """`names` among entropy, raw, logit, squares, away, visible."""
    rows, found = bound.rule.queries, new_found(bound, output, names)
    tall, maxima = rows, None
    if watcher is not None:
        tall = watcher.tall
        maxima = bound.new(blocks(bound.rule.keys, 64), tall)
    for start in range(0, rows, max(1, tall)):
        hide(bound, maxima)
        _launch(bound, found, given, maxima, start, tall)
        if watcher is not None and maxima is not None:
            watcher.see(maxima, start, found.state if given is None else given)
    return found


def hide(bound: Bound, kept: Tensor | None) -> None:
    """Blocks of keys that are not walked over are left as they are: nobody sees them."""
    if kept is not None and bound.rule.spelt is not None:
        kept.fill_(HIDDEN.value)


def _launch(
    bound: Bound,
    found: Found,
    given: RowState | None,
    maxima: Tensor | None,
    start: int,
    tall: int,
) -> None:
    """Rows from `start` on, at most `tall` of them."""
    dim, value_dim = bound.query.shape[-1], bound.value.shape[-1]
    output = found.output if value_dim else None
    asked = Asked.of(found, output, maxima)
    chunk = value_chunk(value_dim, dim)
    shape = row_shape(dim, bound.query.dtype)
    rows = min(tall, bound.rule.queries - start)
    chunks = blocks(value_dim, chunk) if output is not None else 1
    grid = (blocks(rows, shape.rows), bound.units, chunks)
    tensors = (bound.query, bound.key, *([bound.value] if output is not None else []))
    parts: tuple[Any, ...] = (None, None)
    if given is not None:
        parts = tuple(part.to(bound.exact).contiguous() for part in given)
    if 0 in grid:
        return
    run(
        _forward, grid,
        bound.query, bound.key, bound.value if value_dim else bound.key, bound.rule, asked,
        *found.state, *parts, strides_of(bound.query), strides_of(bound.key),
        strides_of(bound.value), dim, value_dim, start // shape.rows, tall,
        DV=chunk if output is not None else padded(0), BM=shape.rows, BN=shape.keys,
        TMA=all(across(t) for t in tensors), **options(bound, shape),
    )  # fmt: skip
