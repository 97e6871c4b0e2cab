"""The row sweep: a block of queries on its way through the keys, by online softmax."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.engine.backend import RowAnswers
from regard.engine.backends.tiled.tile import KEYS, ROWS, Tile, kept_by_dropout, lengthened, times
from regard.engine.call import Call, RowState
from regard.running import RunningRows, sums_for
from regard.summary import (
    Measured,
    Pooled,
    RowStatistic,
    Summary,
    Top,
    TopScored,
)


class Block:
    """One block of queries on its way through the keys."""

    def __init__(
        self, call: Call, rows: range, output: bool, measures: tuple[Summary, ...]
    ) -> None:
        self.call, self.rows, self.measures, self.output = call, rows, measures, output
        shape = call.shape
        lead = (*shape.batch, shape.query_heads, ROWS)
        position = call.position
        if isinstance(position, Tensor):
            position = position[rows.start : rows.stop]
        self.position = position
        new = call.query.detach().to(call.exact)
        self.statistics = [m for m in measures if isinstance(m, RowStatistic)]
        self.running = RunningRows(sums_for(self.statistics), lead, new, new)
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
        """The sums of `regard.running`, and what only the whole matrix needs."""
        self._watch(tile)
        i, j = (
            torch.arange(span.start, span.stop, device=tile.scores.device)
            for span in (tile.rows, tile.cols)
        )
        step = self.running.fold(tile.scores, tile.scaled, i, j, self.position)
        p, a = step.p, step.shrink[..., None]
        for m, cells in self.cells.items():
            if m.how == "mean":
                self.cells[m] = cells * a + self._cell_sums(m, p, tile)
        if self.output:
            keys = self.call.value[..., tile.cols.start : tile.cols.stop, :].detach().to(p.dtype)
            v = lengthened(keys, KEYS - len(tile.cols))
            kept = kept_by_dropout(self.call, tile)
            if kept is not None:
                p = p * F.pad(kept, (0, KEYS - len(tile.cols), 0, ROWS - len(tile.rows)))
            self.context = a * self.context + times(p, v)

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
        sink = self.call.score.sink
        if sink is not None:
            sink = sink.detach().to(self.context.dtype)[:, None]
        if given is not None:
            here, pad = slice(self.rows.start, self.rows.stop), (0, ROWS - len(self.rows))
            given = RowState(*(F.pad(part[..., here], pad) for part in given))
        found = self.running.finish(sink, given)
        maps = {
            m: cells * found.sums.weight[..., None] if m.how == "mean" else found.weights(cells)
            for m, cells in self.cells.items()
        }
        return Closed(
            self.context * found.divide[..., None], RowState(found.peak, found.log),
            {m: m.close(found.sums) for m in self.statistics}, maps,
            TopScored(found.weights(self.top_scores), self.top_keys, self.top_scores),
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
    tall = lengthened(cells, -cells.shape[-2] % cell)
    *lead, rows, columns = tall.shape
    tall = tall.reshape(*lead, rows // cell, cell, columns)
    if m.how == "max":
        return tall.amax(-2) if tall.numel() else tall.sum(-2)
    return tall.sum(-2) / m.area(call.shape, cells)
