# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The k heaviest keys by pruning: they lie in the k blocks of 64 keys with the largest maxima.

The forward sweep leaves the maximum of every block, some rows at a time so that memory stays
O(tokens). Then, per row:

    select   the k blocks with the largest maxima; the least of these bounds the k-th score
    sort     (row, block) pairs by block, so that rows that want the same block stand together
    gather   that block's scores for those rows, and of each the few that reach the bound
    merge    at most k·k survivors a row, sorted

Only a sixteenth of QKᵀ is computed twice at 8,192 keys and k = 8. Equal scores go to the lower
key: equal maxima to the lower block, equal survivors to the lower key.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.gpu.bind import Bound
from regard.engine.gpu.launch import EXACT, Shape, blocks, options, prepare, row_shape, strides_of
from regard.engine.gpu.tile import FLOOR, key_range, score, times
from regard.engine.gpu.top import new_best, rank
from regard.engine.problem import RowState

__all__ = ["Pruner", "prunes"]

_BLOCK = 64
_MOST_PLACES = 16
_FEWEST_KEYS = 2048
_BUFFER = 2**28  # bytes of maxima at a time
_SHAPE = Shape(64, _BLOCK, 4, 2)


def prunes(bound: Bound, count: int) -> bool:
    """Whether pruning pays: half precision, many keys, few of them wanted."""
    half = bound.query.dtype in (torch.bfloat16, torch.float16)
    return half and count <= _MOST_PLACES and bound.rule.keys >= _FEWEST_KEYS


@triton.jit
def _select(
    maxima, rule, wanted, bound, base, tall, count, nothing,
    BM: tl.constexpr, BN: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """The blocks of one block of rows, as unit·blocks + block, and the bound."""
    block = tl.program_id(0)
    unit = tl.program_id(1)
    b = unit // rule.heads
    many = tl.cdiv(rule.keys, 64)
    row = block * BM + tl.arange(0, BM)
    inside = (row < tall) & (base + row < rule.queries)
    place = tl.arange(0, PLACES)
    scores = tl.zeros([BM, PLACES], tl.float32) + tl.where(place < count, FLOOR, 3.0e38)[None, :]
    names = tl.zeros([BM, PLACES], tl.int32) - 1
    least = tl.min(scores, 1)
    start, _full, _partial, end = key_range(rule, b, base + block * BM, BM, BN)
    step = unit.to(tl.int64) * 0 + tall
    source = maxima + unit * many * step + row
    for n in tl.range(start // 64, tl.cdiv(end, 64)):
        new = tl.load(source + n * step, mask=inside, other=FLOOR)
        low = scores == least[:, None]
        oldest = tl.max(tl.where(low, names, -2), 1)
        slot = tl.min(tl.where(low & (names == oldest[:, None]), place[None, :], PLACES), 1)
        here = (new > least)[:, None] & (place[None, :] == slot[:, None])
        scores = tl.where(here, new[:, None], scores)
        names = tl.where(here, n, names)
        least = tl.min(scores, 1)
    at = unit.to(tl.int64) * tall + row
    valid = (names >= 0) & inside[:, None]
    pair = tl.where(valid, unit * many + names, nothing)
    tl.store(wanted + at[:, None] * PLACES + place[None, :], pair, mask=(row < tall)[:, None])
    tl.store(bound + at, least, mask=row < tall)


@triton.jit
def _gather(
    Q, K, rule, order, first_of, group_of, chunk_of, bound, values, keys, base, tall, count,
    groups, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, PLACES: tl.constexpr, FAST: tl.constexpr,
    PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of keys, BM of the rows that want it."""
    NONE: tl.constexpr = 2147483647
    group = tl.load(group_of + tl.program_id(0))
    if group < groups:
        many = tl.cdiv(rule.keys, 64)
        unit = group // many
        b = unit // rule.heads
        h = unit % rule.heads
        begin = tl.load(first_of + group)
        behind = tl.load(first_of + group + 1)
        # the group's own chunks are counted from the first that belongs to it
        chunk = tl.program_id(0) - tl.load(chunk_of + group)
        at = begin + chunk * BM + tl.arange(0, BM)
        inside = at < behind
        entry = tl.load(order + at, mask=inside, other=0)
        line = entry // PLACES
        i = (base + line % tall).to(tl.int32)
        j = (group % many * 64 + tl.arange(0, BN)).to(tl.int32)
        d = tl.arange(0, D)
        own = Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1]
        other = K + b.to(tl.int64) * k_strides[0]
        other += (h // rule.group).to(tl.int64) * k_strides[1]
        q = tl.load(own + i.to(tl.int64)[:, None] * q_strides[2] + d[None, :],
                    mask=inside[:, None] & (d < dim)[None, :], other=0.0)  # fmt: skip
        k = tl.load(other + j.to(tl.int64)[:, None] * k_strides[2] + d[None, :],
                    mask=(j < rule.keys)[:, None] & (d < dim)[None, :], other=0.0)  # fmt: skip
        s = times(q, k.T, PRECISION, WIDE)
        x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], FAST, True)
        # the bound is another kernel's: leave room for its rounding
        least = tl.load(bound + line, mask=inside, other=3.0e38)
        least = tl.maximum(least - 1.0e-4 * tl.abs(least) - 1.0e-6, FLOOR * 0.99)
        best = tl.max(x, 1)
        place = group * 0
        while (place < count) & (tl.max((best >= least).to(tl.int32), 0) > 0):
            key = tl.min(tl.where(x == best[:, None], j[None, :], NONE), 1)
            reached = best >= least
            to = entry.to(tl.int64) * PLACES + place
            tl.store(values + to, tl.where(reached, best, FLOOR), mask=inside)
            tl.store(keys + to, tl.where(reached, key, -1), mask=inside)
            x = tl.where(j[None, :] == key[:, None], FLOOR, x)
            best = tl.max(x, 1)
            place += 1


@triton.jit
def _merge(
    rule, wanted, values, keys, peak, log, found, base, tall, count, nothing,
    ROWS: tl.constexpr, PLACES: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The best of some rows' survivors."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1)
    c = tl.arange(0, PLACES * PLACES)
    inside = (row < tall) & (base + row < rule.queries)
    line = unit.to(tl.int64) * tall + row
    pair = tl.load(wanted + line[:, None] * PLACES + (c // PLACES)[None, :],
                   mask=inside[:, None], other=0)  # fmt: skip
    some = inside[:, None] & (pair < nothing)
    at = line[:, None] * (PLACES * PLACES) + c[None, :]
    held = tl.load(values + at, mask=some, other=FLOOR)
    names = tl.load(keys + at, mask=some, other=-1)
    rank(held, names, rule, peak, log, found,
         unit.to(tl.int64) * rule.queries + base + row, inside, count, FAST)  # fmt: skip


class Pruner:
    """Watches a forward sweep; then knows the best keys."""

    def __init__(self, bound: Bound, count: int) -> None:
        rule = bound.rule
        self.bound, self.count = bound, count
        self.places = 1 << (count - 1).bit_length()
        self.shape = row_shape(bound.query.shape[-1], bound.query.dtype)
        row = max(1, bound.units * blocks(rule.keys, _BLOCK) * 4)
        step = self.shape.rows * max(1, _BUFFER // row // self.shape.rows)
        self.tall = min(step, blocks(rule.queries, self.shape.rows) * self.shape.rows)
        self.best = new_best(bound, count)

    def see(self, maxima: Tensor, start: int, state: RowState) -> None:
        """Select, sort, gather and merge for these rows."""
        bound, rule, places, device = self.bound, self.bound.rule, self.places, maxima.device
        groups = bound.units * blocks(rule.keys, _BLOCK)
        if groups == 0:
            return
        wanted = torch.empty((bound.units * self.tall * places,), dtype=torch.int32, device=device)
        least = torch.empty((bound.units * self.tall,), dtype=torch.float32, device=device)
        prepare()
        _select[(self.tall // self.shape.rows, bound.units)](
            maxima, rule, wanted, least, start, self.tall, self.count, groups,
            BM=self.shape.rows, BN=self.shape.keys, PLACES=places, num_warps=4, **EXACT,
        )  # fmt: skip
        values, keys = self._gather(wanted, least, start, groups)
        peak, log = (part.to(bound.exact).contiguous() for part in state)
        rows = 32 if places <= 8 else 8
        _merge[(blocks(self.tall, rows), bound.units)](
            rule, wanted, values, keys, peak, log, self.best, start, self.tall, self.count, groups,
            ROWS=rows, PLACES=places, FAST=bound.fast, num_warps=4, **EXACT,
        )  # fmt: skip

    def _gather(
        self, wanted: Tensor, least: Tensor, start: int, groups: int
    ) -> tuple[Tensor, Tensor]:
        bound, rule, tile = self.bound, self.bound.rule, _SHAPE.rows
        device, entries = wanted.device, wanted.numel()
        ordered, order = wanted.sort(stable=True)
        names = torch.arange(groups + 1, device=device, dtype=torch.int32)
        first_of = torch.searchsorted(ordered, names)
        chunks = -(-first_of.diff() // tile)
        behind = chunks.cumsum(0)
        # as many programs as there can be chunks; those too many find no group
        programs = blocks(entries, tile) + groups
        group_of = torch.searchsorted(
            behind, torch.arange(programs, device=device), right=True, out_int32=True
        )
        values = torch.full((entries * self.places,), -1.0e38, device=device)
        keys = torch.empty((entries * self.places,), dtype=torch.int32, device=device)
        _gather[(programs,)](
            bound.query, bound.key, rule, order, first_of, group_of, behind - chunks, least,
            values, keys, start, self.tall, self.count, groups, strides_of(bound.query),
            strides_of(bound.key), bound.query.shape[-1], BM=tile, BN=_BLOCK, PLACES=self.places,
            **options(bound, _SHAPE),
        )  # fmt: skip
        return values, keys
