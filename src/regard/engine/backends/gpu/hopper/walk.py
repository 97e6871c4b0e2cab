# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Which rows a program computes, and which tiles of keys they walk.

Programs stay and take turns: a copy for the next rows starts while the last ones are finished.
Rows are dealt forwards in even turns and backwards in odd ones, so that long and short walks under
a causal mask even out. A walk goes from the last tile to the first:

    0 … right      masked (the first always: the keys may end inside it)
    right … left   every row sees all of it
    left … count   masked again, under a window
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from regard.engine.backends.gpu.bind import ScoreOperands
from regard.engine.backends.gpu.launch import EXACT, blocks, run
from regard.engine.backends.gpu.tile import key_range


@gluon.jit
def turns_of(plan):
    """How many of the items are this program's."""
    programs = gl.num_programs(0)
    turns = plan.items // programs
    place = gl.program_id(0)
    if turns % 2 == 1:
        place = programs - 1 - place
    if place < plan.items % programs:
        turns += 1
    return turns


@gluon.jit
def deal(turn, plan):
    """(unit, block) of a turn. Neighbours share a head, so that its keys stay near; under a causal
    mask `crowd` heads go together, the long walks of all of them before the short ones."""
    programs = gl.num_programs(0)
    place = gl.program_id(0)
    if turn % 2 == 1:
        place = programs - 1 - place
    item = turn * programs + place
    group = item // (plan.crowd * plan.blocks)
    rest = item % (plan.crowd * plan.blocks)
    together = gl.minimum(plan.crowd, plan.items // plan.blocks - group * plan.crowd)
    return group * plan.crowd + rest % together, plan.blocks - 1 - rest // together


@gluon.jit
def walk(sight, b, first, ROWS: gl.constexpr, KEYS: gl.constexpr):
    """(last tile, right, left, count); one tile at least, also for rows that see nothing."""
    if sight.ranges is not None:
        at = sight.ranges + b * sight.range_stride + first // ROWS * 4
        start = gl.load(at)
        full = gl.load(at + 1)
        partial = gl.load(at + 2)
        end = gl.load(at + 3)
    else:
        start = first * 0
        full = first * 0
        partial = sight.keys
        end = sight.keys
        if sight.most is not None:
            end = gl.minimum(end, gl.minimum(first + ROWS, sight.queries) + sight.most)
            partial = gl.minimum(partial, first + sight.most + 1)
        if sight.least is not None:
            start = gl.maximum(start, first + sight.least)
            full = gl.maximum(full, gl.minimum(first + ROWS, sight.queries) - 1 + sight.least)
        start = start // KEYS
        full = gl.maximum((full + KEYS - 1) // KEYS, start)
        partial = gl.maximum(gl.maximum(partial, 0) // KEYS, full)
        end = (gl.maximum(end, 0) + KEYS - 1) // KEYS
    last = gl.maximum(end - 1, start)
    count = last + 1 - start
    right = gl.minimum(gl.maximum(last + 1 - partial, 1), count)
    left = gl.minimum(gl.maximum(last + 1 - full, right), count)
    return last, right, left, count


@triton.jit
def _ranges(rule, out, many, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """One block of rows of one batch entry, in tiles."""
    block = tl.program_id(0)
    b = tl.program_id(1)
    start, full, partial, end = key_range(rule, b, block * ROWS, ROWS, KEYS)
    at = out + (b * many + block) * 4
    tl.store(at, start // KEYS)
    tl.store(at + 1, full // KEYS)
    tl.store(at + 2, partial // KEYS)
    tl.store(at + 3, tl.cdiv(end, KEYS))


def ranges_of(rule: ScoreOperands, shape: tuple[int, int]) -> Tensor | None:
    """(B or 1, blocks of rows, 4): where each block's walk starts, is full, is so no more, ends.
    None for bands, which the kernel works out itself."""
    if rule.low is None:
        return None
    rows, keys = shape
    many, entries = blocks(rule.queries, rows), rule.low.shape[0]
    made = torch.empty((entries, many, 4), dtype=torch.int32, device=rule.low.device)
    run(_ranges, (many, entries), rule, made, many, ROWS=rows, KEYS=keys, num_warps=4, **EXACT)
    return made
