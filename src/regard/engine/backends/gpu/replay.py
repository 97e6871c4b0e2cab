# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The replay: column mass and a pooled map in one sweep, with every row's lse known.

    mass_j = Σ_i p_ij        largest_j = max_i p_ij        map_RC = Σ or max of p_ij in a cell

One program owns a block of keys and walks the queries. A thread holds the same places of every
tile, so it keeps a sum of its own for each of its keys; threads are added up at the end. Cells of
the map are put together within a warp, from strips of its 16 queries: threads exchange halves of
what they hold until each has one cell of all, and write it from there. Cells of more than a strip
are joined afterwards. Mass has the same bits whichever map comes along, and nothing is added
atomically.

A weight is 2^(x·per + shift)·share. A row's two terms are prepared once: shift is −lse·log₂e in one
number, share makes up for what rounding it lost. So a weight costs one fused multiply-add and one
power, and its share another where it is added. Rows beyond the last have terms that make every
weight 0, so only the border of a mask needs one.

Where neither tiles hold whole cells nor cells whole tiles, a map has a sweep of its own: a tile is
64 × 64 slots, less where numbers are wide. A small cell takes the next power of two of them, so
that a tile holds whole cells; a large one is several tiles, and each program brings the part of it
that lies in its own rows. Parts are put together outside.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound, ScoreOperands, query_bounds
from regard.engine.backends.gpu.launch import (
    EXACT,
    Shape,
    across,
    blocks,
    options,
    padded,
    replay_shape,
    run,
    strides_of,
)
from regard.engine.backends.gpu.maps import STRIP, WIDEST, draw, larger, pairs_of, reduced
from regard.engine.backends.gpu.tile import (
    clear_queries,
    factor,
    load_key_tokens,
    load_keys,
    load_rows,
    load_state,
    load_tokens,
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
from regard.shapes import AttentionShape
from regard.summary import Pooled

_TERMS = 1024  # rows a program prepares
_JOINED = 256  # strips a program reads at a time
_BESIDE = 32  # of them one cell's, at most
_IN_PLACE = 8  # the least cell that is written from where it was summed
_SECOND_AXIS = 65535  # CUDA's limit on programs there; the first takes 2³¹ − 1


class Replayed(NamedTuple):
    """(B, Hq, S) twice and (B, Hq, ⌈L/cell⌉, ⌈S/cell⌉); None where not asked for."""

    mass: Tensor | None
    largest: Tensor | None
    cells: Tensor | None


@triton.jit(do_not_specialize=["rows"])
def _terms(peak, log, by, found, rows, padded, BLOCK: tl.constexpr):
    """shift of all units, each row padded, then share, multiplied by what weights are."""
    unit = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, g = load_state(peak, log, unit * rows + i, i < rows)
    lse = p + g
    back = lse - p
    lost = (p - (lse - back)) + (g - back)  # p + g = lse + lost, exactly
    at = found + unit * padded + i
    share = tl.exp2(-lost)
    if by is not None:
        share *= tl.load(by + unit * rows + i, mask=i < rows, other=0.0)
    tl.store(at, -lse, mask=i < padded)
    tl.store(at + tl.num_programs(1).to(tl.int64) * padded, share, mask=i < padded)


@triton.jit
def weights(
    n, k, queries, stride, terms, chosen, rule, dim, place,
    D: tl.constexpr, BM: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """(BM, BN) weights before their share, (BM,) shares."""
    shift, share = terms
    b, h, first, j = place
    i = n + tl.arange(0, BM)
    if not MASKED:  # on their way while the product is computed; a mask needs the registers
        by = tl.load(share + i)
        moved = tl.load(shift + i)
    q = load_rows(queries, n, rule.queries, dim, stride, BM, D, TMA)
    s = times(q, k.T, PRECISION, WIDE)
    x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], first, FAST, MASKED)
    if MASKED:
        by = tl.load(share + i)
        moved = tl.load(shift + i)
    per = tl.zeros_like(x) + factor(rule, s, FAST) * log2e(s)
    p = tl.exp2(tl.fma(x, per, tl.zeros_like(x) + moved[:, None]))
    if chosen is not None:
        taken = tl.load(chosen + i, mask=i < rule.queries, other=0) != 0
        p = tl.where(taken[:, None], p, 0.0)
        by = tl.where(taken, by, 0.0)
    return p, by


@triton.jit
def _fold(
    held, n, k, queries, stride, terms, chosen, cells, rule, dim, asked, sizes, place,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CELL: tl.constexpr, SEVERAL: tl.constexpr,
    LARGEST: tl.constexpr, KAHAN: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of queries, added to a block of keys."""
    mass, lost, most, square = held
    p, by = weights(n, k, queries, stride, terms, chosen, rule, dim, place, D, BM, FAST, MASKED,
                    PRECISION, WIDE, TMA)  # fmt: skip
    pairs = by
    if asked.mass is not None or asked.cells is not None:
        pairs = pairs_of(p, by, BM, BN, False)
    if asked.mass is not None:
        if KAHAN:  # halves have lost more before than a plain sum of them does
            added = pairs - lost
            grown = mass + added
            lost = (grown - mass) - added
            mass = grown
        else:
            mass += pairs
    if asked.largest is not None:
        most = larger(most, pairs_of(p, by, BM, BN, True))
    if asked.cells is not None:
        square = draw(square, n, p, by, pairs, cells, rule, sizes, place[2], BM, BN, CELL, SEVERAL,
                      LARGEST)  # fmt: skip
    return mass, lost, most, square


@triton.jit
def _begun(held, anew):
    """Where tiles are left out, a cell may begin with any of its tiles."""
    mass, lost, most, square = held
    return mass, lost, most, tl.where(anew, 0.0, square)


@triton.jit
def _replay(
    Q, K, rule, terms, chosen, bounds, asked, q_strides, k_strides, dim, padded, sizes,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CELL: tl.constexpr, SEVERAL: tl.constexpr,
    LARGEST: tl.constexpr, KAHAN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """One block of keys of one query head."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    block = tl.program_id(0)
    unit = tl.program_id(1)
    units = tl.num_programs(1)
    if TURNED:
        block = tl.program_id(1)
        unit = tl.program_id(0)
        units = tl.num_programs(0)
    first = block * BN
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    j = first + tl.arange(0, BN)
    place = (b, h, first, j)
    stride = q_strides[2]
    queries = source(Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1],
                     rule.queries, dim, stride, BM, D, TMA)  # fmt: skip
    keys = source(K + b.to(tl.int64) * k_strides[0] + kh * k_strides[1], rule.keys, dim,
                  k_strides[2], BN, D, TMA)  # fmt: skip
    k = load_keys(keys, rule, first, dim, k_strides[2], BN, D, TMA)
    shift = terms + unit.to(tl.int64) * padded
    lines = (shift, shift + units.to(tl.int64) * padded)
    cells = Q
    if asked.cells is not None:
        cells = asked.cells + unit.to(tl.int64) * sizes[1] * sizes[2]
    zero = tl.zeros([BM // STRIP, 8, BN], ACC)
    square = tl.zeros([BM // STRIP, 32], ACC)
    held = (zero, zero, zero, square)
    start, full, partial, end = query_range(rule, b, first, BM, BN)
    if bounds is not None:  # outside of them nobody is chosen
        start = tl.maximum(start, tl.load(bounds) // BM * BM)
        end = tl.minimum(end, tl.load(bounds + 1))
        full = tl.maximum(full, start)
        partial = tl.minimum(partial, end)
    if PLAIN and rule.low is None:
        full, partial = clear_queries(rule, first, full, partial, end, BN)
        for n in tl.range(start, tl.minimum(full, end), BM):
            held = _fold(held, n, k, queries, stride, lines, chosen, cells, rule, dim, asked,
                         sizes, place, D, BM, BN, CELL, SEVERAL, LARGEST, KAHAN, FAST, True,
                         PRECISION, WIDE, TMA)  # fmt: skip
        for n in tl.range(full, partial, BM):
            held = _fold(held, n, k, queries, stride, lines, chosen, cells, rule, dim, asked,
                         sizes, place, D, BM, BN, CELL, SEVERAL, LARGEST, KAHAN, FAST, False,
                         PRECISION, WIDE, TMA)  # fmt: skip
        start = tl.maximum(partial, full)
    if not PLAIN or rule.low is not None or rule.least is not None:
        start, end = query_steps(rule, b, h, first, start, end)
        for step in tl.range(start, end, BM):
            n = query_at(rule, b, h, first, step)
            if SEVERAL and rule.spelt is not None:
                before = query_at(rule, b, h, first, tl.maximum(step - BM, 0))
                held = _begun(held, before // sizes[0] != n // sizes[0])
            held = _fold(held, n, k, queries, stride, lines, chosen, cells, rule, dim, asked,
                         sizes, place, D, BM, BN, CELL, SEVERAL, LARGEST, KAHAN, FAST, True,
                         PRECISION, WIDE, TMA)  # fmt: skip
    mass, _lost, most, _square = held
    at = unit.to(tl.int64) * rule.keys + j
    if asked.mass is not None:
        tl.store(asked.mass + at, tl.sum(tl.sum(mass, 1), 0), mask=j < rule.keys)
    if asked.largest is not None:
        most = tl.reduce(tl.reduce(most, 1, larger), 0, larger)
        tl.store(asked.largest + at, most, mask=j < rule.keys)


@triton.jit(do_not_specialize=["tall", "wide", "queries", "keys", "cell", "across"])
def _join(
    strips, found, tall, wide, queries, keys, cell, across, LARGEST: tl.constexpr,
    DOWN: tl.constexpr, BESIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """DOWN × across strips put together to a cell: the largest, or the sum ÷ the area inside. Some
    strips beside each other at a time, as they lie in memory."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, BESIDE)
    whole = tl.zeros([BLOCK], strips.dtype.element_ty)
    for start in tl.range(0, across, BESIDE):
        at = c[:, None] * across + (start + part)[None, :]
        inside = (c < wide)[:, None] & (start + part < across)[None, :]
        for n in tl.static_range(DOWN):
            line = strips + (row * DOWN + n) * (wide * across)
            more = reduced(tl.load(line + at, mask=inside, other=0.0), 1, LARGEST)
            whole = tl.maximum(whole, more) if LARGEST else whole + more
    if not LARGEST:
        height = tl.minimum(cell, queries - (row % tall).to(tl.int32) * cell)
        side = tl.minimum(cell, tl.maximum(keys - c * cell, 1))
        whole = whole / (height.to(tl.int64) * side.to(tl.int64)).to(whole.dtype)
    tl.store(found + row * wide + c, whole, mask=c < wide)


def fits(bound: Bound, cell: int) -> bool:
    """Whether tiles hold whole cells, or cells whole tiles."""
    rows = _tile(bound).rows
    return cell % rows == 0 or rows % cell == 0


def replay(
    bound: Bound,
    state: RowState,
    chosen: Tensor | None = None,
    pooled: tuple[Pooled, int] | None = None,
    largest: bool = False,
    mass: bool = True,
    by: Tensor | None = None,
) -> Replayed:
    """Over the chosen queries; a map comes with its cell, which `fits`, or weights are multiplied
    `by` one number a row."""
    rule, tile = query_bounds(bound.rule), _tile(bound)
    cell = tile.rows if pooled is None else pooled[1]
    tall, wide = blocks(rule.queries, cell), blocks(rule.keys, cell)
    # strips of a cell; one that is taller than a tile is carried along
    down = blocks(min(cell, tile.rows), STRIP.value)
    beside = blocks(cell, min(tile.rows, WIDEST.value))
    of_largest = pooled is not None and pooled[0].how == "max"
    found = None if pooled is None else bound.new(tall, wide)
    strips = found
    if found is not None and cell > STRIP.value:
        strips = bound.new(tall * down, wide * beside)
    if strips is not None and (chosen is not None or not _walks_over_all(rule)):
        strips.zero_()
    sums, most = (bound.new(rule.keys) if wanted else None for wanted in (mass, largest))
    asked = Replayed(sums, most, strips)
    many = blocks(rule.keys, tile.keys)
    turned = _is_turned(rule, many)
    grid = (bound.units, many) if turned else (many, bound.units)
    if 0 in grid:
        return asked._replace(cells=found)
    terms, padded = row_terms(bound, state, tile.rows, by)
    flags, bounds = (None, None) if chosen is None or not rule.queries else _taken(chosen)
    if cell < _IN_PLACE:  # such cells pass through shared memory, where two blocks must have room
        tile = tile._replace(stages=min(tile.stages, 2))
    run(
        _replay, grid,
        bound.query, bound.key, rule, terms, flags, bounds, asked, strides_of(bound.query),
        strides_of(bound.key), bound.query.shape[-1], padded,
        (cell, tall * down, wide * beside), BM=tile.rows, BN=tile.keys,
        CELL=min(cell, tile.rows), SEVERAL=cell > tile.rows, LARGEST=of_largest,
        KAHAN=bound.query.dtype == bound.exact,
        TMA=across(bound.query) and across(bound.key), TURNED=turned, **options(bound, tile),
    )  # fmt: skip
    if found is not None and found is not strips and found.numel():
        at_once = min(1 << (beside - 1).bit_length(), _BESIDE)
        run(
            _join, (bound.units * tall, blocks(wide, _JOINED // at_once)),
            strips, found, tall, wide, rule.queries, rule.keys, cell, beside,
            LARGEST=of_largest, DOWN=down, BESIDE=at_once, BLOCK=_JOINED // at_once,
        )  # fmt: skip
    return asked._replace(cells=found)


def _walks_over_all(rule: ScoreOperands) -> bool:
    """Whether every tile is looked at, however little of it is seen."""
    narrow = (rule.most, rule.least, rule.spelt, rule.first_query)
    return all(part is None for part in narrow)


def _is_turned(rule: ScoreOperands, many: int) -> bool:
    """Under a causal mask the long walks of all heads go first, so that none starts late: blocks of
    keys are then the grid's second axis, which takes only so many."""
    return rule.most is not None and many <= _SECOND_AXIS


def _tile(bound: Bound) -> Shape:
    plain = bound.plain and bound.rule.low is None
    return replay_shape(bound.query.shape[-1], bound.query.dtype, plain)


def _taken(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """(L,) flags; (2,) before the first and behind the last of them, found without waiting."""
    place = torch.arange(chosen.shape[0], device=chosen.device)
    first = torch.where(chosen, place, chosen.shape[0]).amin()
    last = torch.where(chosen, place, -1).amax()
    return chosen.contiguous().view(torch.uint8), torch.stack([first, last + 1]).to(torch.int32)


def row_terms(
    bound: Bound, state: RowState, rows: int, by: Tensor | None = None
) -> tuple[Tensor, int]:
    """(2, units, padded): the two terms of every row; how many rows that is, in whole tiles."""
    queries = bound.rule.queries
    padded = blocks(queries, rows) * rows
    terms = torch.empty((2, bound.units, padded), dtype=bound.exact, device=bound.query.device)
    if padded:
        peak, log = (part.to(bound.exact).contiguous() for part in state)
        times_by = None if by is None else by.to(bound.exact).contiguous()
        run(
            _terms, (blocks(padded, _TERMS), bound.units), peak, log, times_by, terms, queries,
            padded, BLOCK=_TERMS, **EXACT,
        )  # fmt: skip
    return terms, padded


# ── cells of any size ────────────────────────────────────────────────────────────────────────


def _layout(bound: Bound) -> Shape:
    """Square tiles."""
    wide = padded(bound.query.shape[-1]) > 128
    if bound.exact == torch.float64 or wide:
        return Shape(32, 32, 4, 1)
    return Shape(64, 64, 4, 2 if bound.query.dtype == torch.float32 else 3)


@triton.jit
def _slots(block, cell, parts, PER: tl.constexpr, SLOTS: tl.constexpr, TILE: tl.constexpr):
    """(TILE,): the token of each slot of a tile, and whether it is one of the tile's cell."""
    slot = tl.arange(0, TILE)
    inner = block % parts * TILE + slot % SLOTS
    return (block // parts * PER + slot // SLOTS) * cell + inner, inner < cell


@triton.jit
def _fold_slots(
    held, n, q, keys, rule, p_row, l_row, b, h, i, cell, parts, where, inside, wide_cells, dim,
    stride,
    D: tl.constexpr, TILE: tl.constexpr, SLOTS: tl.constexpr, LARGEST: tl.constexpr,
    FAST: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One tile; its cells are written where they end."""
    PER: tl.constexpr = TILE // SLOTS
    j, there = _slots(n, cell, parts, PER, SLOTS, TILE)
    k = load_key_tokens(keys, rule, j, there & (j < rule.keys), dim, stride, D)
    s = times(q, k.T, PRECISION, WIDE)
    x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], j[None, :], FAST, True)
    p, _ = weight(x, factor(rule, s, FAST) * log2e(s), p_row[:, None], l_row[:, None])
    p = tl.reshape(tl.where(there[None, :], p, 0.0), [PER, SLOTS, PER, SLOTS])
    if LARGEST:
        held = tl.maximum(held, tl.max(tl.max(p, 3), 1))
    else:
        held += tl.sum(tl.sum(p, 3), 1)
    c = n // parts * PER + tl.arange(0, PER)
    ended = (c * 0 + n) % parts == parts - 1
    tl.store(where + c[None, :], held, mask=inside[:, None] & (ended & (c < wide_cells))[None, :])
    return tl.where(ended[None, :], 0.0, held)


@triton.jit
def _pooled(
    Q, K, rule, peak, log, found, cell, parts, tall, wide_cells, q_strides, k_strides, dim,
    D: tl.constexpr, TILE: tl.constexpr, SLOTS: tl.constexpr, LARGEST: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One tile's rows of one head, through all cells across. Rows of a tile need not be
    consecutive, so the band alone says which keys matter, and every tile is masked."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    PER: tl.constexpr = TILE // SLOTS
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    i, mine = _slots(block, cell, parts, PER, SLOTS, TILE)
    mine &= i < rule.queries
    queries = Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1]
    keys = K + b.to(tl.int64) * k_strides[0] + kh * k_strides[1]
    q = load_tokens(queries, i, mine, dim, q_strides[2], D)
    p_row, l_row = load_state(peak, log, unit.to(tl.int64) * rule.queries + i, mine)
    row = block * PER + tl.arange(0, PER)
    where = found + (unit.to(tl.int64) * tall + row)[:, None] * wide_cells
    held = tl.zeros([PER, PER], ACC)
    rows = block // parts * PER * cell + block % parts * TILE
    first = rows * 0
    last = first + rule.keys
    if rule.most is not None:
        last = tl.minimum(last, rows + PER * cell + rule.most)
    if rule.least is not None:
        first = tl.maximum(first, rows + rule.least)
    first = first // cell // PER * parts
    last = tl.cdiv(tl.cdiv(last, cell), PER) * parts
    for n in tl.range(first, last):
        held = _fold_slots(held, n, q, keys, rule, p_row, l_row, b, h, i, cell, parts, where,
                           row < tall, wide_cells, dim, k_strides[2], D, TILE, SLOTS, LARGEST, FAST,
                           PRECISION, WIDE)  # fmt: skip


def cell_map(bound: Bound, state: RowState, summary: Pooled, shape: AttentionShape) -> Tensor:
    """(B, Hq, ⌈L/cell⌉, ⌈S/cell⌉)."""
    cell = summary.size(shape)
    found = replay(bound, state, pooled=(summary, cell)).cells if fits(bound, cell) else None
    if found is not None:
        return found
    found = _gathered(bound, state, cell, summary.how == "max")
    if summary.how == "max":
        return found
    return found / summary.area(shape, torch.empty(0, dtype=bound.exact, device=found.device))


def _gathered(bound: Bound, state: RowState, cell: int, largest: bool) -> Tensor:
    """Sums, or the largest; whatever the cell."""
    rule, layout = bound.rule, _layout(bound)
    down, wide = blocks(rule.queries, cell), blocks(rule.keys, cell)
    tile = layout.rows
    slots = min(tile, 1 << (cell - 1).bit_length())
    parts = blocks(cell, tile)
    tall = down * parts
    found = bound.new(tall, wide).zero_()
    grid = (blocks(tall, tile // slots), bound.units)
    peak, log = (part.to(bound.exact).contiguous() for part in state)
    if 0 not in (*grid, wide):
        run(
            _pooled, grid,
            bound.query, bound.key, rule, peak, log, found, cell, parts, tall, wide,
            strides_of(bound.query), strides_of(bound.key), bound.query.shape[-1], TILE=tile,
            SLOTS=slots, LARGEST=largest, **options(bound, layout),
        )  # fmt: skip
    if parts == 1:
        return found
    apart = found.unflatten(2, (down, parts))
    return apart.amax(3) if largest else apart.sum(3)
