# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""Which blocks of 64 keys each row wants, and which rows each block is wanted by: the first three
steps of `prune`.

    select    every row walks its blocks' maxima with k places in registers, the largest first. The
              least of a row's maxima bounds its k-th score
    arrange   counts become, per head, where each block's list of rows begins, and a work list
              with one entry for every `RUN` rows of a block
    list      each row is written into the lists of its blocks, with its place: which of the row's
              blocks this is

Equal maxima go to the lower block. Where a row stands in a list depends on who counted first.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.launch import EXACT, blocks, run
from regard.engine.backends.gpu.tile import FLOOR, key_range

BLOCK = 64  # keys of a block
RUN = 256  # rows of a piece of work
_ROWS = 64  # no more than any forward's block of rows: what it sees, all of its rows have written
_LISTED = 128  # rows of a list


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


@triton.jit(do_not_specialize=["base"])
def _select(
    maxima, rule, names_out, turn_out, counts, least_out, base, tall,
    ROWS: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """The blocks that some rows want, (unit, place, row), the largest maximum first."""
    # under a causal mask, the long ones first
    block = tl.num_programs(0) - 1 - tl.program_id(0)
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


@triton.jit(do_not_specialize=["many", "most"])
def _arrange(
    counts, first_out, work_block, work_first, work_behind, work_count, many, most,
    RUN: tl.constexpr, TILE: tl.constexpr,
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
            behind = tl.minimum(at + count, at + (piece + 1) * RUN)
            tl.store(work_behind + to + piece, behind, mask=some)
        first += tl.sum(count, 0)
        work += tl.sum(pieces, 0)
    tl.store(work_count + unit, work)


@triton.jit(do_not_specialize=["many"])
def _list(
    names, turn, first, entries_out, held, many, tall, ROWS: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """Some rows of one head. Nobody gathers for a place without a block: it holds nothing."""
    unit = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < tall
    for place in tl.static_range(COUNT):
        at = (unit * COUNT + place) * tall + row
        name = tl.load(names + at, mask=inside, other=-1)
        some = name >= 0
        to = tl.load(turn + at, mask=some, other=0)
        to += tl.load(first + unit * many + name, mask=some, other=0)
        tl.store(entries_out + unit * COUNT * tall + to, row * COUNT + place, mask=some)
        tl.store(held + at, 0, mask=inside & (name < 0))


class Wanted(NamedTuple):
    """Places of rows by block, all of it per head; `most` pieces of work at most."""

    least: Tensor  # (units, tall): bounds the k-th score from below
    names: Tensor  # (units, k, tall): blocks, −1 where there are fewer
    held: Tensor  # (units, k, tall): survivors; written by whoever gathers, and 0 where no block is
    entries: Tensor  # (units, k·tall): row·k + place, in the order of blocks
    first: Tensor  # (units, blocks): where a block's entries begin
    counts: Tensor  # (units, blocks)
    work_block: Tensor  # (units, most)
    work_first: Tensor  # (units, most): the first of at most RUN entries
    work_behind: Tensor  # (units, most)
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
        least=new(tall, dtype=torch.float32), names=new(count, tall), held=new(count, tall),
        entries=new(count * tall), first=new(many),
        counts=torch.zeros((units, many), dtype=torch.int32, device=device), work_block=new(most),
        work_first=new(most), work_behind=new(most), work_count=new(), most=most,
    )  # fmt: skip
    turn = new(count, tall)
    run(
        _select, (blocks(tall, _ROWS), units),
        maxima, bound.rule, made.names, turn, made.counts, made.least, start, tall,
        ROWS=_ROWS, COUNT=count, num_warps=2, **EXACT,
    )  # fmt: skip
    run(
        _arrange, (units,),
        made.counts, made.first, made.work_block, made.work_first, made.work_behind,
        made.work_count, many, most, RUN=RUN, TILE=1024, num_warps=4,
    )  # fmt: skip
    run(
        _list, (blocks(tall, _LISTED), units),
        made.names, turn, made.first, made.entries, made.held, many, tall, ROWS=_LISTED,
        COUNT=count,
    )  # fmt: skip
    return made
