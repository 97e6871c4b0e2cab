# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The k heaviest keys by pruning: they lie in the k blocks of 64 keys with the largest maxima.

The forward sweep leaves the maximum of every block, some rows at a time so that memory stays
O(tokens). Then, for these rows:

    wanted   the k blocks with the largest maxima, and the rows that want each block; the least
             of a row's maxima bounds its k-th score
    gather   a block's scores for the rows that want it; those that reach a row's bound are
             appended to its list: at most k of a block, so at most k·k
    merge    every row walks its list with k places in registers

Only a sixteenth of QKᵀ is computed twice at 8,192 keys and k = 8. Equal scores go to the lower
key: equal maxima to the lower block, equal survivors to the lower key.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.call import RowState
from regard.engine.gpu.bind import Bound
from regard.engine.gpu.decode import decodes
from regard.engine.gpu.launch import EXACT, Shape, blocks, options, row_shape, strides_of
from regard.engine.gpu.running import run
from regard.engine.gpu.tile import FLOOR, load_state, score, times
from regard.engine.gpu.top import new_best, write
from regard.engine.gpu.wanted import BLOCK, RUN, Wanted, wanted

_MOST_PLACES = 16
_FEWEST_KEYS = 2048
_BUFFER = 2**29  # bytes of maxima and survivors at a time
_SHAPE = Shape(64, BLOCK, 4, 2)
_ROWS = 64  # of a merge


def prunes(bound: Bound, count: int) -> bool:
    """Whether pruning pays: half precision, many keys, few of them wanted."""
    half = bound.query.dtype in (torch.bfloat16, torch.float16)
    return half and count <= _MOST_PLACES and bound.rule.keys >= _FEWEST_KEYS


@triton.jit
def _append(x, j, row, least, held, values, keys, tall, COUNT: tl.constexpr):
    """The best COUNT of the scores that reach their row's bound, to that row's list; lower keys
    first among equals."""
    NONE: tl.constexpr = 2147483647
    most = tl.max(tl.sum((x >= least[:, None]).to(tl.int32), 1), 0)
    for _ in range(tl.minimum(most, COUNT)):
        best = tl.max(x, 1)
        key = tl.min(tl.where(x == best[:, None], j[None, :], NONE), 1)
        reaches = best >= least
        # in any order: the list is sorted later
        turn = tl.atomic_add(held + row, 1, mask=reaches, sem="relaxed")
        at = turn.to(tl.int64) * tall + row
        tl.store(values + at, best, mask=reaches)
        tl.store(keys + at, key, mask=reaches)
        x = tl.where(j[None, :] == key[:, None], FLOOR, x)


@triton.jit
def _gather(
    Q, K, rule, want, held, values, keys, base, tall, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, RUN: tl.constexpr, COUNT: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of keys, at most RUN of the rows that want it."""
    unit = tl.program_id(1)
    wide = unit.to(tl.int64)
    if tl.program_id(0) < tl.load(want.work_count + unit):
        b = unit // rule.heads
        h = unit % rule.heads
        many = tl.cdiv(rule.keys, 64)
        work = wide * want.most + tl.program_id(0)
        block = tl.load(want.work_block + work)
        first = tl.load(want.work_first + work)
        behind = tl.load(want.first + wide * many + block)
        behind += tl.load(want.counts + wide * many + block)
        behind = tl.minimum(behind, first + RUN)
        j = block * 64 + tl.arange(0, BN)
        d = tl.arange(0, D)
        own = Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1]
        other = K + b.to(tl.int64) * k_strides[0]
        other += (h // rule.group).to(tl.int64) * k_strides[1]
        k = tl.load(other + j.to(tl.int64)[:, None] * k_strides[2] + d[None, :],
                    mask=(j < rule.keys)[:, None] & (d < dim)[None, :], other=0.0)  # fmt: skip
        rows = want.rows + wide * COUNT * tall
        lists = wide * COUNT * COUNT * tall
        # tiles pass no vector on to each other: Triton 3.6 takes one that is wanted in several
        # layouts for what it was before the loop, and rows then get the bounds of others
        for start in tl.range(first, behind, BM):
            at = start + tl.arange(0, BM)
            inside = at < behind
            row = tl.load(rows + at, mask=inside, other=0)
            i = base + row
            q = tl.load(own + i.to(tl.int64)[:, None] * q_strides[2] + d[None, :],
                        mask=inside[:, None] & (d < dim)[None, :], other=0.0)  # fmt: skip
            # the bound is another kernel's: leave room for its rounding
            least = tl.load(want.least + wide * tall + row, mask=inside, other=3.0e38)
            least = tl.maximum(least - 1.0e-4 * tl.abs(least) - 1.0e-5, FLOOR * 0.99)
            s = times(q, k.T, PRECISION, WIDE)
            x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], block * 64, FAST, True)
            _append(x, j, row, least, held + wide * tall, values + lists, keys + lists, tall,
                    COUNT)  # fmt: skip


@triton.jit
def _insert(values, keys, x, key, COUNT: tl.constexpr):
    """x into descending places; equal ones stand by key, and nothing stands behind everything."""
    made = values[:0]
    made_keys = keys[:0]
    above = x
    above_key = key
    for place in tl.static_range(COUNT):
        # a place behind x takes what stood above it, or x itself where x does not pass that
        v = values[place]
        name = keys[place]
        before = (x > v) | ((x == v) & (key < name))
        made += (tl.where(before, above, v),)
        made_keys += (tl.where(before, above_key, name),)
        above = tl.where(before, v, x)
        above_key = tl.where(before, name, key)
    return made, made_keys


@triton.jit
def _merge(
    rule, held, values, keys, peak, log, found, base, tall,
    ROWS: tl.constexpr, COUNT: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The best of some rows' survivors."""
    NONE: tl.constexpr = 2147483647
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1).to(tl.int64)
    inside = (row < tall) & (base + row < rule.queries)
    many = tl.load(held + unit * tall + row, mask=inside, other=0)
    best = (tl.zeros([ROWS], tl.float32) + FLOOR,) * COUNT
    names = (tl.zeros([ROWS], tl.int32) + NONE,) * COUNT
    lists = unit * COUNT * COUNT * tall + row
    x = tl.load(values + lists, mask=many > 0, other=FLOOR)
    key = tl.load(keys + lists, mask=many > 0, other=NONE)
    for n in range(1, tl.max(many, 0) + 1):
        lists += tall
        later = tl.load(values + lists, mask=many > n, other=FLOOR)
        later_key = tl.load(keys + lists, mask=many > n, other=NONE)
        best, names = _insert(best, names, x, key, COUNT)
        x = later
        key = later_key
    at = unit * rule.queries + base + row
    p_row, l_row = load_state(peak, log, at, inside)
    for place in tl.static_range(COUNT):
        write(best[place], names[place], rule, p_row, l_row, found, at * COUNT + place, inside,
              FAST)  # fmt: skip


class Pruner:
    """Watches a forward sweep; then knows the best keys."""

    def __init__(self, bound: Bound, count: int) -> None:
        self.bound, self.count = bound, count
        self.tall = self._rows_at_a_time()
        self.best = new_best(bound, count)

    def _rows_at_a_time(self) -> int:
        """A power of two that the buffer holds, so that blocks of rows fill the machine evenly."""
        bound = self.bound
        if decodes(bound):
            return bound.rule.queries
        least = row_shape(bound.query.shape[-1], bound.query.dtype).rows
        row = blocks(bound.rule.keys, BLOCK) * 4 + self.count * (self.count * 8 + 12)
        fit = max(1, _BUFFER // max(1, bound.units * row))
        fit = max(least, 1 << (fit.bit_length() - 1))
        return min(fit, blocks(bound.rule.queries, least) * least)

    def see(self, maxima: Tensor, start: int, state: RowState) -> None:
        """Find the best keys of these rows."""
        bound = self.bound
        if bound.units * bound.rule.queries * bound.rule.keys == 0:
            return
        want = wanted(bound, maxima, start, self.count)
        survivors = self._gather(want, start)
        peak, log = (part.to(bound.exact).contiguous() for part in state)
        run(
            _merge, (blocks(self.tall, _ROWS), bound.units),
            bound.rule, *survivors, peak, log, self.best, start, self.tall,
            ROWS=_ROWS, COUNT=self.count, FAST=bound.fast, num_warps=2, **EXACT,
        )  # fmt: skip

    def _gather(self, want: Wanted, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """How many survivors rows have (units, rows), their scores and keys (units, k·k, rows)."""
        bound, device = self.bound, self.bound.query.device
        size = (bound.units, self.count * self.count, self.tall)
        held = torch.zeros((bound.units, self.tall), dtype=torch.int32, device=device)
        values = torch.empty(size, device=device)
        keys = torch.empty(size, dtype=torch.int32, device=device)
        run(
            _gather, (want.most, bound.units),
            bound.query, bound.key, bound.rule, want, held, values, keys, start, self.tall,
            strides_of(bound.query), strides_of(bound.key), bound.query.shape[-1],
            BM=_SHAPE.rows, BN=_SHAPE.keys, RUN=RUN, COUNT=self.count, **options(bound, _SHAPE),
        )  # fmt: skip
        return held, values, keys
