# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""What the scores of a few queries tell: received mass, maps, the heaviest keys.

A sweep over the keys for each question would read all of them each time, for a single query as for
a hundred. The scores of at most 16 queries are a small part of what the keys are, so `decode`
leaves them behind, and these kernels read nothing else.

    sums    one head, some cells across: every query's weights, in order, added to the keys they
            fall on and to their cells. Mass is added key by key, so that it has the same bits
            whichever map comes along
    best    one row, one tile of its scores: the k largest, one after the other, lower keys first
            among equals. What tiles hand on is taken for scores again, until one tile is left

Scores are kept of so many key heads at a time as 256 MiB hold, or of a single one.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.decode import MOST_QUERIES, look
from regard.engine.backends.gpu.launch import EXACT, blocks, run
from regard.engine.backends.gpu.maps import larger
from regard.engine.backends.gpu.tile import (
    FLOOR,
    HIDDEN,
    factor,
    key_range,
    load_state,
    log2e,
    weight,
)
from regard.engine.backends.gpu.top import Best, new_best, write
from regard.engine.call import RowState
from regard.summary import ColumnSums, Pooled, Top

MOST_PLACES = 32  # of a row's heaviest keys
_BUFFER = 2**28  # bytes of scores at a time
_TILE = 1024  # scores that a program holds
_LARGE = 4096  # of a cell that does not fit into such a tile


# ── over queries ─────────────────────────────────────────────────────────────────────────────


@triton.jit(do_not_specialize=["base", "cell", "parts", "tall", "wide"])
def _sums(
    scores, rule, peak, log, chosen, by, mass_out, most_out, cells_out, base, cell, parts, tall,
    wide,
    PER: tl.constexpr, SLOTS: tl.constexpr, LARGEST: tl.constexpr, QUERIES: tl.constexpr,
    FAST: tl.constexpr,
):  # fmt: skip
    """PER cells across of one head, counted from `base`: a cell has SLOTS places in a tile, or it
    is `parts` tiles."""
    ACC: tl.constexpr = scores.dtype.element_ty
    unit = base + tl.program_id(0)
    own = scores + tl.program_id(0).to(tl.int64) * rule.queries * rule.keys
    line = unit.to(tl.int64) * rule.queries
    # beyond them nobody sees anything, and nothing was written
    start, _full, _partial, end = key_range(rule, unit // rule.heads, unit * 0, QUERIES, 1)
    c = tl.program_id(1) * PER + tl.arange(0, PER)
    square = tl.zeros([PER, SLOTS], ACC)
    for part in range(parts):
        slot = part * SLOTS + tl.arange(0, SLOTS)
        j = c[:, None] * cell + slot[None, :]
        there = (slot < cell)[None, :] & (j < rule.keys)
        walked = there & (j >= start) & (j < end)
        mass = tl.zeros([PER, SLOTS], ACC)
        most = tl.zeros([PER, SLOTS], ACC)
        row = own
        for i in range(rule.queries):
            x = tl.load(row + j, mask=walked, other=HIDDEN)
            row += rule.keys
            p_row, l_row = load_state(peak, log, line + i, line >= 0)
            p, _ = weight(x, factor(rule, x, FAST) * log2e(x), p_row, l_row)
            if mass_out is not None:
                added = p
                if chosen is not None:
                    added = tl.where(tl.load(chosen + i) != 0, p, 0.0)
                if by is not None:
                    added *= tl.load(by + line + i)
                mass += added
                if most_out is not None:
                    most = larger(most, added)
            if cells_out is not None:
                square = tl.maximum(square, p) if LARGEST else square + p
                ended = ((i + 1) % cell == 0) | (i + 1 == rule.queries)
                if ended & (part + 1 == parts):
                    _write_cells(square, cells_out, unit, i // cell, c, cell, tall, wide, rule,
                                 LARGEST)  # fmt: skip
                    square = tl.zeros([PER, SLOTS], ACC)
        if mass_out is not None:
            tl.store(mass_out + unit.to(tl.int64) * rule.keys + j, mass, mask=there)
        if most_out is not None:
            tl.store(most_out + unit.to(tl.int64) * rule.keys + j, most, mask=there)


@triton.jit
def _write_cells(square, found, unit, row, c, cell, tall, wide, rule, LARGEST: tl.constexpr):
    """The largest, or the sum ÷ the area inside."""
    if LARGEST:
        whole = tl.max(square, 1)
    else:
        height = tl.minimum(cell, rule.queries - row * cell)
        side = tl.minimum(cell, tl.maximum(rule.keys - c * cell, 1))
        area = (height.to(tl.int64) * side.to(tl.int64)).to(square.dtype)
        whole = tl.sum(square, 1) / area
    tl.store(found + (unit.to(tl.int64) * tall + row) * wide + c, whole, mask=c < wide)


# ── over keys ────────────────────────────────────────────────────────────────────────────────


@triton.jit(do_not_specialize=["base", "many"])
def _best(
    values, keys, rule, peak, log, found, more, more_keys, base, many,
    TILE: tl.constexpr, COUNT: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Some of the `many` numbers of one row, counted from `base`: where no keys come with them,
    they are its scores; where there is nobody to hand them on to, they are its best."""
    NONE: tl.constexpr = 2147483647
    local = tl.program_id(0).to(tl.int64)
    row = base + local
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    nothing = tl.full((), FLOOR, values.dtype.element_ty)
    if keys is None:
        i = (row % rule.queries).to(tl.int32)
        b = (row // rule.queries // rule.heads).to(tl.int32)
        start, _full, _partial, end = key_range(rule, b, i, 1, 1)
        inside = (n >= start) & (n < end)
        names = n
    else:
        inside = n < many
        names = tl.load(keys + local * many + n, mask=inside, other=NONE)
    x = tl.load(values + local * many + n, mask=inside, other=HIDDEN)
    x = tl.where(x > nothing, x, nothing)  # what is no number is passed over
    p_row, l_row = load_state(peak, log, row, row >= 0)
    to = local * tl.num_programs(1) + tl.program_id(1)
    for place in range(COUNT):
        best = tl.max(x, 0)
        name = tl.min(tl.where(x == best, names, NONE), 0)
        if more is None:
            write(best, name, rule, p_row, l_row, found, row * COUNT + place, row >= 0, FAST)
        else:
            tl.store(more + to * COUNT + place, best)
            tl.store(more_keys + to * COUNT + place, name)
        x = tl.where(names == name, nothing, x)


# ── together ─────────────────────────────────────────────────────────────────────────────────


class ScoreReader:
    """Reads the scores of a call that `decodes` takes; then knows what was asked: mass and largest
    weights of the chosen queries, maps by the size of their cells, best keys."""

    def __init__(
        self,
        bound: Bound,
        mass: bool,
        chosen: Tensor | None = None,
        maps: dict[Pooled, int] | None = None,
        tops: tuple[Top, ...] = (),
        largest: bool = False,
        by: Tensor | None = None,
    ) -> None:
        rule, self.sizes = bound.rule, maps or {}
        self.bound, self.heads = bound, _heads_at_a_time(bound)
        self.chosen = None if chosen is None else chosen.contiguous().view(torch.uint8)
        self.by = None if by is None else by.to(bound.exact).contiguous()
        self.mass = bound.new(rule.keys) if mass else None
        self.largest = bound.new(rule.keys) if largest else None
        for column in (self.mass, self.largest):
            if column is not None and not rule.queries:
                column.zero_()  # nothing is swept
        self.maps = {
            one: bound.new(blocks(rule.queries, cell), blocks(rule.keys, cell))
            for one, cell in self.sizes.items()
        }
        self.tops = {one: new_best(bound, one.k) for one in tops}

    def see(self, scores: Tensor, first: int, state: RowState) -> None:
        """(units, L, S), from unit `first` on."""
        exact = RowState(*(part.to(self.bound.exact).contiguous() for part in state))
        mass = self.mass
        for one in self.maps or ([] if mass is None else [None]):
            self._add(scores, first, exact, mass, one)
            mass = None  # it came with the first map
        for best in self.tops.values():
            self._rank(scores, first, exact, best)

    def _add(
        self, scores: Tensor, first: int, state: RowState, mass: Tensor | None, one: Pooled | None
    ) -> None:
        """Mass, a map, or both."""
        rule = self.bound.rule
        cell = _TILE if one is None else self.sizes[one]
        cell = min(cell, max(rule.queries, rule.keys))  # one that holds everything is walked once
        tile = _TILE if cell <= _TILE else _LARGE
        slots = min(tile, 1 << (cell - 1).bit_length())
        tall, wide = blocks(rule.queries, cell), blocks(rule.keys, cell)
        run(
            _sums, (scores.shape[0], blocks(wide, tile // slots)),
            scores, rule, *state, self.chosen, self.by, mass,
            None if mass is None else self.largest, None if one is None else self.maps[one], first,
            cell, blocks(cell, slots), tall, wide, PER=tile // slots, SLOTS=slots,
            LARGEST=one is not None and one.how == "max", QUERIES=MOST_QUERIES,
            FAST=self.bound.fast, num_warps=4 if tile == _TILE else 8, **EXACT,
        )  # fmt: skip

    def _rank(self, scores: Tensor, first: int, state: RowState, best: Best) -> None:
        """Round after round, until one tile is left."""
        rule, count = self.bound.rule, best.keys.shape[-1]
        rows, many = scores.shape[0] * rule.queries, rule.keys
        values: Tensor | None = scores
        keys = None
        while values is not None:
            tiles = blocks(many, _TILE)
            more = more_keys = None
            if tiles > 1:
                more = values.new_empty((rows, tiles * count))
                more_keys = values.new_empty(more.shape, dtype=torch.int32)
            held = min(_TILE, 1 << (many - 1).bit_length())
            run(
                _best, (rows, tiles),
                values, keys, rule, *state, best, more, more_keys, first * rule.queries, many,
                TILE=held, COUNT=count, FAST=self.bound.fast, num_warps=4 if held > 256 else 1,
                **EXACT,
            )  # fmt: skip
            values, keys, many = more, more_keys, tiles * count


def _heads_at_a_time(bound: Bound) -> int:
    """As many key heads as the buffer holds, about as many each time."""
    rule, shared = bound.rule, bound.units // bound.rule.group
    head = rule.group * rule.queries * rule.keys * bound.exact.itemsize
    times = blocks(shared, max(1, _BUFFER // max(1, head)))
    return max(1, blocks(shared, max(1, times)))


def received(
    bound: Bound, state: RowState, chosen: Tensor | None, asked: ColumnSums
) -> tuple[Tensor, Tensor | None]:
    """(B, Hq, S): the mass of the chosen queries, and their largest weights where asked for."""
    reader = ScoreReader(bound, True, chosen, largest=asked.largest, by=asked.by)
    look(bound, state, reader)
    assert reader.mass is not None
    return reader.mass, reader.largest
