# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""How many queries may see each key: the mask alone, so nothing is multiplied.

One program owns a block of keys and walks the queries. Where every query of a tile sees every key
of the block, they are only counted.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.gpu.bind import Bound
from regard.engine.gpu.launch import Shape, blocks, options
from regard.engine.gpu.running import run
from regard.engine.gpu.tile import query_at, query_range, query_steps, score

_TILE = Shape(32, 128, 4, 1)


@triton.jit
def _counted(chosen, n, queries, BM: tl.constexpr):
    """(BM,): which queries of a tile count."""
    i = n + tl.arange(0, BM)
    taken = i < queries
    if chosen is not None:
        taken &= tl.load(chosen + i, mask=taken, other=0) != 0
    return i, taken


@triton.jit
def _seen(
    count, chosen, rule, b, h, j, first, start, end, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Tile by tile, as the mask says and a bias of −∞; what scores are does not matter."""
    nothing = tl.zeros([BN, BM], tl.float32)
    start, end = query_steps(rule, b, h, first, start, end)
    for step in tl.range(start, end, BM):
        n = query_at(rule, b, h, first, step)
        i, taken = _counted(chosen, n, rule.queries, BM)
        _, _, _, seen = score(nothing, rule, b, h, i[None, :], j[:, None], first, True, True)
        count += tl.sum((seen & taken[None, :]).to(tl.int32), 1)
    return count


@triton.jit
def _counts(
    rule, chosen, found,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of keys of one query head."""
    first = tl.program_id(0) * BN
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    j = first + tl.arange(0, BN)
    count = tl.zeros([BN], tl.int32)
    start, full, partial, end = query_range(rule, first, BM, BN)
    if PLAIN and rule.low is None:
        count = _seen(count, chosen, rule, b, h, j, first, start, tl.minimum(full, end), BM, BN)
        for n in tl.range(full, partial, BM):
            _, taken = _counted(chosen, n, rule.queries, BM)
            count += tl.sum(taken.to(tl.int32), 0)
        start = partial
    count = _seen(count, chosen, rule, b, h, j, first, start, end, BM, BN)
    at = unit.to(tl.int64) * rule.keys + j
    tl.store(found + at, count, mask=j < rule.keys)


def counts(bound: Bound, chosen: Tensor | None) -> Tensor:
    """(B, Hq, S) int32, of the chosen queries."""
    rule = bound.rule
    found = bound.new(rule.keys, dtype=torch.int32)
    grid = (blocks(rule.keys, _TILE.keys), bound.units)
    if 0 not in grid:
        flags = None if chosen is None else chosen.contiguous().view(torch.uint8)
        run(
            _counts, grid, rule, flags, found, BM=_TILE.rows, BN=_TILE.keys, **options(bound, _TILE)
        )
    return found
