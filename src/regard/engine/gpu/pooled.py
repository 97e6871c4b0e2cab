# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Maps: the mean or the largest weight of each cell × cell square.

Where tiles hold whole cells or cells whole tiles, the replay brings them. Here are the others: a
tile is 64 × 64 slots, less where numbers are wide. A small cell takes the next power of two of
them, so that a tile holds whole cells; a large one is several tiles, and each program brings the
part of it that lies in its own rows. Parts are put together outside: no atomics.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.call import RowState
from regard.engine.gpu.bind import Bound
from regard.engine.gpu.launch import (
    Shape,
    blocks,
    options,
    padded,
    strides_of,
)
from regard.engine.gpu.replay import fits, replay
from regard.engine.gpu.running import run
from regard.engine.gpu.tile import factor, load_state, log2e, score, times, weight
from regard.shapes import AttentionShape
from regard.summary import Pooled


def _layout(bound: Bound) -> Shape:
    """Square tiles."""
    wide = padded(bound.query.shape[-1])
    if bound.query.dtype in (torch.bfloat16, torch.float16) and wide <= 128:
        return Shape(64, 64, 4, 3)
    return Shape(64, 64, 4, 2) if bound.exact == torch.float32 and wide <= 128 else _SMALL


_SMALL = Shape(32, 32, 4, 1)


@triton.jit
def _slots(block, cell, parts, PER: tl.constexpr, SLOTS: tl.constexpr, TILE: tl.constexpr):
    """(TILE,): the token of each slot of a tile, and whether it is one of the tile's cell."""
    slot = tl.arange(0, TILE)
    inner = block % parts * TILE + slot % SLOTS
    return (block // parts * PER + slot // SLOTS) * cell + inner, inner < cell


@triton.jit
def _load(base, tokens, there, dim, stride, D: tl.constexpr):
    """(TILE, D): the rows of a tile's tokens."""
    d = tl.arange(0, D)
    inside = there[:, None] & (d < dim)[None, :]
    at = tokens.to(tl.int64)[:, None] * stride + d[None, :]
    return tl.load(base + at, mask=inside, other=0.0)


@triton.jit
def _fold(
    held, n, q, keys, rule, p_row, l_row, b, h, i, cell, parts, where, inside, wide_cells, dim,
    stride,
    D: tl.constexpr, TILE: tl.constexpr, SLOTS: tl.constexpr, LARGEST: tl.constexpr,
    FAST: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One tile; its cells are written where they end."""
    PER: tl.constexpr = TILE // SLOTS
    j, there = _slots(n, cell, parts, PER, SLOTS, TILE)
    k = _load(keys, j, there & (j < rule.keys), dim, stride, D)
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
    q = _load(queries, i, mine, dim, q_strides[2], D)
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
        held = _fold(held, n, q, keys, rule, p_row, l_row, b, h, i, cell, parts, where, row < tall,
                     wide_cells, dim, k_strides[2], D, TILE, SLOTS, LARGEST, FAST, PRECISION,
                     WIDE)  # fmt: skip


def pooled(bound: Bound, state: RowState, summary: Pooled, shape: AttentionShape) -> Tensor:
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
