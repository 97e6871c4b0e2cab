"""The row sweep: a block of queries on its way through the keys, by online softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.engine.backend import RowAnswers
from regard.engine.call import Call, RowState
from regard.engine.tiled.tile import KEYS, ROWS, Tile, kept_by_dropout, times
from regard.summary import (
    Measured,
    Pooled,
    RowStatistic,
    RunningSum,
    Summary,
    Sums,
    Top,
    TopScored,
)
from regard.summary.base import running_sums


@dataclass
class _TileStep:
    """One tile on its way through a sweep, as statistics see it; padded to (…, ROWS, KEYS)."""

    p: Tensor
    u: Tensor
    scores: Tensor
    scaled: Tensor
    rows: range
    cols: range
    position: int

    @property
    def distance(self) -> Tensor:
        """(ROWS, KEYS): |i − j|."""
        device = self.p.device
        i = torch.arange(self.rows.start, self.rows.start + ROWS, device=device)
        j = torch.arange(self.cols.start, self.cols.start + KEYS, device=device)
        return (i[:, None] + self.position - j[None, :]).abs()

    def positions(self) -> tuple[Tensor, Tensor]:
        """(rows,) and (cols,): where queries and keys stand."""
        i = torch.arange(self.rows.start, self.rows.stop, device=self.p.device) + self.position
        return i, torch.arange(self.cols.start, self.cols.stop, device=self.p.device)

    def inside(self, array: Tensor) -> Tensor:
        """The part that lies in the matrix."""
        return array[..., : len(self.rows), : len(self.cols)]

    def outside(self, array: Tensor) -> Tensor:
        """(…, rows, cols) → (…, ROWS, KEYS), with 0 or False."""
        return F.pad(array, (0, KEYS - len(self.cols), 0, ROWS - len(self.rows)))


class Block:
    """One block of queries on its way through the keys."""

    def __init__(
        self, call: Call, rows: range, output: bool, measures: tuple[Summary, ...]
    ) -> None:
        self.call, self.rows, self.measures, self.output = call, rows, measures, output
        shape = call.shape
        lead = (*shape.batch, shape.query_heads, ROWS)
        new = call.query.detach().to(call.exact)
        self.peak = new.new_full(lead, -torch.inf)
        self.statistics = [m for m in measures if isinstance(m, RowStatistic)]
        self.running = running_sums(self.statistics)
        self.sums = {
            one.name: new.new_full(
                lead, -torch.inf if one.join == "max" else 0,
                dtype=torch.int64 if one.whole else new.dtype,
            )
            for one in self.running
        }  # fmt: skip
        self.context = new.new_zeros((*lead, shape.value_dim))
        k = max((m.k for m in measures if isinstance(m, Top)), default=0)
        self.top_scores = new.new_full((*lead, k), -torch.inf)
        self.top_keys = torch.full((*lead, k), -1, dtype=torch.int64, device=new.device)
        self.cells: dict[Pooled, Tensor] = {}
        for m in measures:
            if isinstance(m, Pooled):
                columns = -(-shape.keys // m.size(shape))
                start = 0.0 if m.how == "mean" else -torch.inf
                self.cells[m] = new.new_full((*lead, columns), start)

    def fold(self, tile: Tile) -> None:
        """u = s − m, δ = m_old − m_new, a = exp δ: see docs/kernels.md for the recurrences."""
        s = tile.scores
        self._watch(tile)
        peak = torch.maximum(self.peak, s.amax(-1))
        base = peak.masked_fill(peak == -torch.inf, 0.0)  # rows that have seen nothing yet
        delta = torch.where(self.peak == -torch.inf, 0.0, self.peak - base)
        a = torch.where(self.peak == -torch.inf, 0.0, delta.exp())
        u = s - base[..., None]
        p = u.exp()
        u = u.masked_fill(p == 0, 0.0)  # 0·(−∞) = 0
        step = _TileStep(p, u, s, tile.scaled, tile.rows, tile.cols, self.call.position)
        self.sums = {one.name: self._next(one, a, delta, step) for one in self.running}
        for m, cells in self.cells.items():
            if m.how == "mean":
                self.cells[m] = cells * a[..., None] + self._cell_sums(m, p, tile)
        self.peak = peak
        if self.output:
            keys = self.call.value[..., tile.cols.start : tile.cols.stop, :].detach().to(p.dtype)
            v = F.pad(keys, (0, 0, 0, KEYS - len(tile.cols)))
            kept = kept_by_dropout(self.call, tile)
            if kept is not None:
                p = p * F.pad(kept, (0, KEYS - len(tile.cols), 0, ROWS - len(tile.rows)))
            self.context = a[..., None] * self.context + times(p, v)

    def _next(self, one: RunningSum, a: Tensor, delta: Tensor, step: _TileStep) -> Tensor:
        carried, term = one.carry(self.sums, a, delta), one.term(step)
        made: Tensor = carried + term if one.join == "sum" else torch.maximum(carried, term)
        return made

    def _watch(self, tile: Tile) -> None:
        """What needs the scores themselves: the best keys, largest cells."""
        s = tile.scores
        k = self.top_keys.shape[-1]
        if k:
            j = torch.arange(tile.cols.start, tile.cols.start + KEYS, device=s.device)
            keys = torch.where(s != -torch.inf, j, -1)
            # earlier keys stand first, and a stable sort keeps them there among equals
            both, order = torch.cat([self.top_scores, s], -1).sort(
                dim=-1, descending=True, stable=True
            )
            self.top_scores = both[..., :k]
            self.top_keys = torch.cat([self.top_keys, keys], -1).gather(-1, order[..., :k])
        for m, cells in self.cells.items():
            if m.how == "max":
                at = self._cell_index(m, tile).expand(s.shape)
                self.cells[m] = cells.scatter_reduce(-1, at, s, "amax")

    def _cell_index(self, m: Pooled, tile: Tile) -> Tensor:
        cell = m.size(self.call.shape)
        j = torch.arange(tile.cols.start, tile.cols.start + KEYS, device=tile.scores.device)
        return (j // cell).clamp(max=self.cells[m].shape[-1] - 1)

    def _cell_sums(self, m: Pooled, p: Tensor, tile: Tile) -> Tensor:
        """A product with an indicator: no atomics on any device."""
        columns = torch.arange(self.cells[m].shape[-1], device=p.device)
        return p @ (self._cell_index(m, tile)[:, None] == columns).to(p.dtype)

    def close(self, given: RowState | None) -> Closed:
        """Add the sink and divide: by one's own total, or by the lse that was given."""
        peak, sums, shrink = self.peak, self.sums, None
        if self.call.score.sink is not None:
            sink = self.call.score.sink.detach().to(peak.dtype)[:, None]
            now = torch.maximum(peak, sink)
            base = now.masked_fill(now == -torch.inf, 0.0)
            delta = torch.where(peak == -torch.inf, 0.0, peak - base)
            shrink = torch.where(peak == -torch.inf, 0.0, delta.exp())
            extra = (sink - base).exp()
            gap = torch.where(extra > 0, sink - base, 0.0)
            sums = {
                one.name: self.sums[one.name]
                if one.sink is None
                else one.carry(self.sums, shrink, delta) + one.sink(extra, gap)
                for one in self.running
            }
            peak = now
        total = sums["total"]
        some = total > 0
        log = torch.where(some, total.clamp(min=torch.finfo(total.dtype).tiny).log(), 0.0)
        log = torch.where(total.isnan(), total, log)
        to_peak, to_log = peak, log
        if given is not None:
            here = slice(self.rows.start, self.rows.stop)
            pad = (0, ROWS - len(self.rows))
            to_peak, to_log = (F.pad(part[..., here], pad) for part in given)
        # what a weight relative to the running maximum is worth, as every later sweep has it
        share = torch.where(to_peak == -torch.inf, 0.0, ((peak - to_peak) - to_log).exp())
        own = torch.where(total == 0, 0.0, 1 / total) if given is None else share
        inverse, divide = (x if shrink is None else shrink * x for x in (share, own))
        nothing = (to_peak == -torch.inf)[..., None]

        def weight(scores: Tensor) -> Tensor:
            p = ((scores - to_peak[..., None]) - to_log[..., None]).exp()
            return p.masked_fill(nothing, 0.0)

        finished = Sums(sums, log, inverse)
        maps = {
            m: cells * inverse[..., None] if m.how == "mean" else weight(cells)
            for m, cells in self.cells.items()
        }
        return Closed(
            self.context * divide[..., None], RowState(peak, log),
            {m: m.close(finished) for m in self.statistics}, maps,
            TopScored(weight(self.top_scores), self.top_keys, self.top_scores),
        )  # fmt: skip


class Closed(NamedTuple):
    """What a block of rows brings."""

    output: Tensor
    state: RowState
    numbers: dict[RowStatistic, Tensor]
    maps: dict[Pooled, Tensor]  # (…, ROWS, columns)
    top: TopScored  # of the most keys that are asked for


def assemble(
    call: Call, blocks: list[Closed], output: bool, measures: tuple[Summary, ...]
) -> RowAnswers:
    """Blocks of rows back to back; pooled rows added up."""
    axis = len(call.shape.batch) + 1

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, axis).narrow(axis, 0, call.shape.queries).contiguous()

    top = TopScored(*(joined(list(parts)) for parts in zip(*(b.top for b in blocks), strict=True)))
    measured: dict[Summary, Measured] = {}
    for m in measures:
        if isinstance(m, Top):
            measured[m] = TopScored(*(part[..., : m.k] for part in top))
        elif isinstance(m, Pooled):
            measured[m] = _pool_rows(m, joined([block.maps[m] for block in blocks]), call)
        elif isinstance(m, RowStatistic):
            measured[m] = joined([block.numbers[m] for block in blocks])
        else:
            m.tensors(call.shape)  # says why not
    state = RowState(*(joined(list(p)) for p in zip(*(b.state for b in blocks), strict=True)))
    return RowAnswers(joined([b.output for b in blocks]) if output else None, state, measured)


def _pool_rows(m: Pooled, cells: Tensor, call: Call) -> Tensor:
    """(…, L, columns) → (…, ⌈L/cell⌉, columns)."""
    cell = m.size(call.shape)
    tall = F.pad(cells, (0, 0, 0, -cells.shape[-2] % cell))
    *lead, rows, columns = tall.shape
    tall = tall.reshape(*lead, rows // cell, cell, columns)
    if m.how == "max":
        return tall.amax(-2) if tall.numel() else tall.sum(-2)
    return tall.sum(-2) / m.area(call.shape, cells)
