# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The k heaviest keys of every row; equal scores go to the lower key.

A block of rows walks its keys with k places a row. While some row's largest score of the tile
beats the least of its places, every such row takes it: the lowest key first, the least place
with the highest key making room. Each score enters at most once, and few do after the first
tiles. Many places do not fit into registers: those rows are sorted, a strip at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.cells import cells
from regard.engine.backends.gpu.launch import (
    Shape,
    across,
    blocks,
    options,
    run,
    strides_of,
)
from regard.engine.backends.gpu.tile import (
    FLOOR,
    factor,
    key_at,
    key_range,
    key_steps,
    load_keys,
    load_rows,
    load_state,
    log2e,
    score,
    source,
    times,
    weight,
)
from regard.engine.call import Place, RowState

_SHAPE = Shape(64, 64, 4, 2)
_NARROW = Shape(32, 32, 4, 1)  # where numbers or heads are wide
_PLACES = 32
_STRIP = 2**26  # scores of a strip


@triton.jit
def _take(x, best, keys, scores, least, j, NONE: tl.constexpr):
    """Every row whose `best` beats its least place takes it."""
    PLACES: tl.constexpr = scores.shape[1]
    place = tl.arange(0, PLACES)
    key = tl.min(tl.where(x == best[:, None], j[None, :], NONE), 1)
    least_here = scores == least[:, None]
    oldest = tl.max(tl.where(least_here, keys, -2), 1)
    slot = tl.min(tl.where(least_here & (keys == oldest[:, None]), place[None, :], PLACES), 1)
    here = (best > least)[:, None] & (place[None, :] == slot[:, None])
    scores = tl.where(here, best[:, None], scores)
    keys = tl.where(here, key[:, None], keys)
    x = tl.where(j[None, :] == key[:, None], FLOOR, x)
    return x, tl.max(x, 1), keys, scores, tl.min(scores, 1)


@triton.jit
def write(x, key, rule, p_row, l_row, found, at, inside, FAST: tl.constexpr):
    """One place of some rows: weight, final score and key; FLOOR is an empty one."""
    missing = x <= FLOOR
    some = factor(rule, x, FAST)
    x = tl.where(missing, -float("inf"), x)
    p, _ = weight(x, some * log2e(x), p_row, l_row)
    tl.store(found.weights + at, p, mask=inside)
    tl.store(found.scores + at, x * some, mask=inside)
    tl.store(found.keys + at, tl.where(missing, -1, key).to(tl.int64), mask=inside)


@triton.jit
def _rank(scores, keys, rule, peak, log, found, at, inside, count, FAST: tl.constexpr):
    """Sort what each row holds (rows, held), heaviest first and lower keys first among equals,
    and write the first `count`."""
    NONE: tl.constexpr = 2147483647
    p_row, l_row = load_state(peak, log, at, inside)
    for place in range(count):
        best = tl.max(scores, 1)
        key = tl.min(tl.where(scores == best[:, None], keys, NONE), 1)
        write(best, key, rule, p_row, l_row, found, at * count + place, inside, FAST)
        scores = tl.where((scores == best[:, None]) & (keys == key[:, None]), FLOOR, scores)


@triton.jit
def _top(
    Q, K, rule, peak, log, found, count, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, PLACES: tl.constexpr, FAST: tl.constexpr,
    PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    NONE: tl.constexpr = 2147483647
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    first = block * BM
    unit = tl.program_id(1)
    b = unit // rule.heads
    h = unit % rule.heads
    kh = (h // rule.group).to(tl.int64)
    i = first + tl.arange(0, BM)
    wide = b.to(tl.int64)
    queries = source(Q + wide * q_strides[0] + h.to(tl.int64) * q_strides[1], rule.queries, dim,
                     q_strides[2], BM, D, TMA)  # fmt: skip
    key_rows = source(K + wide * k_strides[0] + kh * k_strides[1], rule.keys, dim, k_strides[2],
                      BN, D, TMA)  # fmt: skip
    q = load_rows(queries, first, rule.queries, dim, q_strides[2], BM, D, TMA)
    place = tl.arange(0, PLACES)
    # places beyond the wanted ones are never the least
    scores = tl.zeros([BM, PLACES], ACC) + tl.where(place < count, FLOOR, 3.0e38)[None, :]
    keys = tl.zeros([BM, PLACES], tl.int32) - 1
    least = tl.min(scores, 1)
    start, _full, _partial, end = key_range(rule, b, first, BM, BN)
    start, end = key_steps(rule, b, h, first, start, end)
    for step in tl.range(start, end, BN):
        n = key_at(rule, b, h, first, step)
        j = n + tl.arange(0, BN)
        k = load_keys(key_rows, rule, n, dim, k_strides[2], BN, D, TMA)
        s = times(q, k.T, PRECISION, WIDE)
        x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], n, FAST, True)
        best = tl.max(x, 1)
        while tl.max((best > least).to(tl.int32), 0) > 0:
            x, best, keys, scores, least = _take(x, best, keys, scores, least, j, NONE)

    scores = tl.where(place[None, :] < count, scores, FLOOR)
    keys = tl.where(place[None, :] < count, keys, -1)
    _rank(scores, keys, rule, peak, log, found, unit.to(tl.int64) * rule.queries + i,
          i < rule.queries, count, FAST)  # fmt: skip


class Best(NamedTuple):
    """(B, Hq, L, k) each; −1, 0 and −∞ where fewer keys are seen."""

    weights: Tensor
    scores: Tensor
    keys: Tensor


def new_best(bound: Bound, count: int) -> Best:
    """Unwritten."""
    rows = bound.rule.queries
    numbers = [bound.new(rows, count) for _ in range(2)]
    return Best(numbers[0], numbers[1], bound.new(rows, count, dtype=torch.int64))


def top(bound: Bound, state: RowState, count: int) -> Best:
    """The `count` heaviest keys."""
    if count > _PLACES:
        return _sorted(bound, state, count)
    rows, dim = bound.rule.queries, bound.query.shape[-1]
    found = new_best(bound, count)
    shape = _SHAPE if dim * bound.query.element_size() <= 512 else _NARROW
    grid = (blocks(rows, shape.rows), bound.units)
    peak, log = (part.to(bound.exact).contiguous() for part in state)
    if 0 not in grid:
        run(
            _top, grid,
            bound.query, bound.key, bound.rule, peak, log, found, count, strides_of(bound.query),
            strides_of(bound.key), dim, BM=shape.rows, BN=shape.keys,
            PLACES=1 << (count - 1).bit_length(),
            TMA=across(bound.query) and across(bound.key), **options(bound, shape),
        )  # fmt: skip
    return found


def _sorted(bound: Bound, state: RowState, count: int) -> Best:
    """By a stable sort of strips of final scores."""
    rule, device = bound.rule, bound.query.device
    found = Best(
        bound.new(rule.queries, count).fill_(0.0),
        bound.new(rule.queries, count).fill_(-torch.inf),
        bound.new(rule.queries, count, dtype=torch.int64).fill_(-1),
    )
    tall = max(1, _STRIP // max(1, bound.units * rule.keys))
    kept = min(count, rule.keys)
    units = torch.arange(bound.units, device=device)
    cols = torch.arange(rule.keys, device=device)
    peak, log = (part.reshape(bound.units, -1, 1) for part in state)
    for start in range(0, rule.queries, tall):
        rows = torch.arange(start, min(start + tall, rule.queries), device=device)
        part = cells(bound, None, Place(units, rows, cols), "scores")
        scores, keys = part.sort(dim=-1, descending=True, stable=True)
        scores, keys = scores[..., :kept], keys[..., :kept]
        p = ((scores - peak[:, rows]) - log[:, rows]).exp()
        p = p.masked_fill(peak[:, rows] == -torch.inf, 0.0)
        keys = keys.masked_fill(scores == -torch.inf, -1)
        for target, made in zip(found, (p, scores, keys), strict=True):
            target.flatten(0, 1)[:, rows, :kept] = made
    return found
