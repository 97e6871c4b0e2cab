# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The k heaviest keys by pruning: they lie in the k blocks of 64 keys with the largest maxima.

The forward sweep leaves the maximum of every block, some rows at a time so that memory stays
O(tokens). Then, for these rows:

    select    every row walks its blocks' maxima with k places in registers, the largest first;
              the least of a row's maxima bounds its k-th score
    arrange   counts become, per head, where each block's list of rows begins, and a work list
              with one entry for every `RUN` rows of a block
    list      each row is written into the lists of its blocks
    gather    a block's scores for the rows that want it; those that reach a row's bound are
              appended to its list: at most k of a block, so at most k·k
    merge     every row walks its list with k places in registers

Only a sixteenth of QKᵀ is computed twice at 8,192 keys and k = 8. Equal scores go to the lower
key: equal maxima to the lower block, equal survivors to the lower key. Where a row stands in a list
depends on who counted first; what is computed for it does not. Nothing here waits for the host:
work lists have the length that they can have at most.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.decode import decodes
from regard.engine.backends.gpu.launch import (
    EXACT,
    Shape,
    blocks,
    options,
    row_shape,
    run,
    strides_of,
)
from regard.engine.backends.gpu.tile import FLOOR, key_range, load_state, score, times
from regard.engine.backends.gpu.top import new_best, write
from regard.engine.call import RowState

BLOCK = 64  # keys of a block
RUN = 256  # rows of a piece of work
_MOST_PLACES = 16
_FEWEST_KEYS = 2048
_BUFFER = 2**29  # bytes of maxima and survivors at a time
_SHAPE = Shape(64, BLOCK, 4, 2)
_ROWS = 64  # no more than any forward's block of rows: what it sees, all of its rows have written
_MERGED = 64  # rows of a merge
_ENTRIES = 1024


def prunes(bound: Bound, count: int) -> bool:
    """Whether pruning pays: half precision, many keys, few of them wanted. The scores of few
    queries are kept."""
    half = bound.query.dtype in (torch.bfloat16, torch.float16)
    many = bound.rule.keys >= _FEWEST_KEYS and not decodes(bound)
    return half and count <= _MOST_PLACES and many


# ── which blocks ─────────────────────────────────────────────────────────────────────────────


@triton.jit
def _insert_block(values, names, x, name, COUNT: tl.constexpr):
    """x into descending places; among equals, who came first stays first."""
    x = tl.maximum(x, FLOOR)
    held = values[:0]
    held_names = names[:0]
    held += (tl.maximum(values[0], x),)
    held_names += (tl.where(x > values[0], name, names[0]),)
    for place in tl.static_range(1, COUNT):
        # a place below x takes what stood above it, or x itself where x does not pass that
        above = tl.where(x > values[place - 1], names[place - 1], name)
        held += (tl.maximum(values[place], tl.minimum(values[place - 1], x)),)
        held_names += (tl.where(x > values[place], above, names[place]),)
    return held, held_names


@triton.jit
def _read(source, n, end, step, none):
    """The maxima of one block."""
    return tl.load(source + n * step, mask=none + n < end, other=FLOOR)


@triton.jit
def _read_ahead(source, n, end, step, none):
    """The maxima of the next eight blocks, so that eight loads are under way at once."""
    return (
        _read(source, n, end, step, none), _read(source, n + 1, end, step, none),
        _read(source, n + 2, end, step, none), _read(source, n + 3, end, step, none),
        _read(source, n + 4, end, step, none), _read(source, n + 5, end, step, none),
        _read(source, n + 6, end, step, none), _read(source, n + 7, end, step, none),
    )  # fmt: skip


@triton.jit
def _select(
    maxima, rule, names_out, turn_out, counts, least_out, base, tall,
    ROWS: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """The blocks that some rows want, (unit, place, row), the largest maximum first."""
    block = tl.program_id(0)
    unit = tl.program_id(1)
    many = tl.cdiv(rule.keys, 64)
    row = block * ROWS + tl.arange(0, ROWS)
    inside = (row < tall) & (base + row < rule.queries)
    start, _full, _partial, end = key_range(rule, unit // rule.heads, base + block * ROWS, ROWS, 64)
    start = start // 64
    end = tl.cdiv(end, 64)
    values = (tl.zeros([ROWS], tl.float32) + FLOOR,) * COUNT
    names = (tl.zeros([ROWS], tl.int32) - 1,) * COUNT
    wide = unit.to(tl.int64)
    step = wide * 0 + tall
    source = maxima + wide * many * step + row
    none = tl.where(inside, 0, many)  # past every block, in rows that do not exist
    now = _read_ahead(source, start, end, step, none)
    for n in tl.range(start, end, 8):
        later = _read_ahead(source, n + 8, end, step, none)
        for a in tl.static_range(8):
            name = tl.zeros([ROWS], tl.int32) + (n + a)
            values, names = _insert_block(values, names, now[a], name, COUNT)
        now = later
    for place in tl.static_range(COUNT):
        some = inside & (names[place] >= 0)
        at = (wide * COUNT + place) * tall + row
        # who comes first depends on the clock; who comes at all does not
        turn = tl.atomic_add(counts + wide * many + names[place], 1, mask=some, sem="relaxed")
        tl.store(names_out + at, tl.where(some, names[place], -1), mask=row < tall)
        tl.store(turn_out + at, turn, mask=some)
    tl.store(least_out + wide * tall + row, values[COUNT - 1], mask=row < tall)


@triton.jit
def _arrange(
    counts, first_out, work_block, work_first, work_count, many, most, RUN: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """One head's lists, one after another, and its work."""
    unit = tl.program_id(0).to(tl.int64)
    first = (unit * 0).to(tl.int32)
    work = (unit * 0).to(tl.int32)
    for start in tl.range(0, many, TILE):
        block = start + tl.arange(0, TILE)
        inside = block < many
        count = tl.load(counts + unit * many + block, mask=inside, other=0)
        at = first + tl.cumsum(count, 0) - count
        tl.store(first_out + unit * many + block, at, mask=inside)
        pieces = (count + RUN - 1) // RUN
        to = unit * most + work + tl.cumsum(pieces, 0) - pieces
        for piece in tl.range(0, tl.max(pieces, 0)):
            some = piece < pieces
            tl.store(work_block + to + piece, block, mask=some)
            tl.store(work_first + to + piece, at + piece * RUN, mask=some)
        first += tl.sum(count, 0)
        work += tl.sum(pieces, 0)
    tl.store(work_count + unit, work)


@triton.jit
def _list(names, turn, first, rows_out, many, tall, COUNT: tl.constexpr, TILE: tl.constexpr):
    """Some (place, row) of one head."""
    unit = tl.program_id(1).to(tl.int64)
    entry = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = entry < COUNT * tall
    at = unit * COUNT * tall + entry
    name = tl.load(names + at, mask=inside, other=-1)
    some = name >= 0
    to = tl.load(first + unit * many + name, mask=some, other=0)
    to += tl.load(turn + at, mask=some, other=0)
    tl.store(rows_out + unit * COUNT * tall + to, entry % tall, mask=some)


class Wanted(NamedTuple):
    """Rows by block, all of it per head; `most` pieces of work at most."""

    least: Tensor  # (units, tall): bounds the k-th score from below
    names: Tensor  # (units, k, tall): blocks, −1 where there are fewer
    rows: Tensor  # (units, k·tall): in the order of blocks
    first: Tensor  # (units, blocks): where a block's rows begin
    counts: Tensor  # (units, blocks)
    work_block: Tensor  # (units, most)
    work_first: Tensor  # (units, most): the first of at most RUN rows
    work_count: Tensor  # (units,)
    most: int


def wanted(bound: Bound, maxima: Tensor, start: int, count: int) -> Wanted:
    """Of the rows from `start` on, whose maxima (units, blocks, tall) are known."""
    units, device = bound.units, maxima.device
    many, tall = blocks(bound.rule.keys, BLOCK), maxima.shape[-1]
    most = blocks(tall * count, RUN) + min(many, tall * count)

    def new(*size: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.empty((units, *size), dtype=dtype, device=device)

    made = Wanted(
        least=new(tall, dtype=torch.float32), names=new(count, tall), rows=new(count * tall),
        first=new(many), counts=torch.zeros((units, many), dtype=torch.int32, device=device),
        work_block=new(most), work_first=new(most), work_count=new(), most=most,
    )  # fmt: skip
    turn = new(count, tall)
    run(
        _select, (blocks(tall, _ROWS), units),
        maxima, bound.rule, made.names, turn, made.counts, made.least, start, tall,
        ROWS=_ROWS, COUNT=count, num_warps=2, **EXACT,
    )  # fmt: skip
    run(
        _arrange, (units,),
        made.counts, made.first, made.work_block, made.work_first, made.work_count, many, most,
        RUN=RUN, TILE=1024, num_warps=4,
    )  # fmt: skip
    run(
        _list, (blocks(count * tall, _ENTRIES), units),
        made.names, turn, made.first, made.rows, many, tall, COUNT=count, TILE=_ENTRIES,
    )  # fmt: skip
    return made


# ── which keys ───────────────────────────────────────────────────────────────────────────────


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
def _insert_key(values, keys, x, key, COUNT: tl.constexpr):
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
        best, names = _insert_key(best, names, x, key, COUNT)
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
            _merge, (blocks(self.tall, _MERGED), bound.units),
            bound.rule, *survivors, peak, log, self.best, start, self.tall,
            ROWS=_MERGED, COUNT=self.count, FAST=bound.fast, num_warps=2, **EXACT,
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
