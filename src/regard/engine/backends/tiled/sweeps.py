"""The four sweeps as loops over tiles of torch operations."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.engine.backend import MASS, ColumnAnswers, Gradients, RowAnswers
from regard.engine.backends.tiled.rows import Block, assemble
from regard.engine.backends.tiled.tile import (
    blocks_of,
    grouped,
    inside,
    kept_by_dropout,
    places_in,
    tiles_of,
    weights_of,
)
from regard.engine.call import Call, Place, Problem, RowState, What
from regard.engine.gradients import BiasGradient
from regard.summary import ColumnStatistic, ColumnSums, Measured, Summary


class TiledSweeps:
    """Attention as a loop over tiles of torch operations."""

    name = "tiled"

    def unavailable(self) -> list[str]:
        """Runs wherever torch runs."""
        return []

    def reasons(self, problem: Problem) -> list[str]:
        """There is nothing it cannot do."""
        return []

    def knows(self, summary: Summary) -> bool:
        return True

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def rows(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None = None,
    ) -> RowAnswers:
        """Online softmax: each block of queries walks its key tiles in order."""
        columns = tuple(m for m in measures if isinstance(m, ColumnStatistic))
        rows = tuple(m for m in measures if not isinstance(m, ColumnStatistic))
        # where there is no query, one block of none says the shapes
        ranges = list(blocks_of(call.shape.queries)) or [range(0)]
        blocks = [Block(call, block, output, rows) for block in ranges]
        for block in blocks:
            for tile in tiles_of(call, block.rows):
                block.fold(tile)
        found = assemble(call, [block.close(given) for block in blocks], output, rows)
        if columns:
            found.measured.update(self._column_statistics(call, given or found.state, columns))
        return found

    def _column_statistics(
        self, call: Call, state: RowState, statistics: tuple[ColumnStatistic, ...]
    ) -> dict[Summary, Measured]:
        """Each block of queries joins its terms to those of the blocks before, in order."""
        shape = call.shape
        full = (*shape.batch, shape.query_heads, shape.keys)
        made = {m: call.query.new_zeros(full, dtype=call.exact) for m in statistics}
        for rows in blocks_of(shape.queries):
            for tile in tiles_of(call, rows):
                here = slice(tile.cols.start, tile.cols.stop)
                p = inside(weights_of(tile, state), tile)
                for m, column in made.items():
                    column[..., here] = m.joined(column[..., here], m.term(p))
        found: dict[Summary, Measured] = dict(made.items())
        return found

    # ── columns ──────────────────────────────────────────────────────────────────────────────

    def columns(
        self,
        call: Call,
        state: RowState,
        chosen: Tensor | None,
        y: Tensor | None,
        asked: ColumnSums = MASS,
    ) -> ColumnAnswers:
        """Each block of queries adds its weights to the keys it sees, in order."""
        shape = call.shape
        full = (*shape.batch, shape.query_heads, shape.keys)
        mass = call.query.new_zeros(full, dtype=torch.float64)
        count = torch.zeros(full, dtype=torch.int64, device=call.query.device)
        product = None if y is None else y.new_zeros((*full, y.shape[-1]), dtype=call.exact)
        count_of_diagonals = max(shape.queries + shape.keys - 1, 0)
        diagonals = mass.new_zeros((*full[:-1], count_of_diagonals if asked.offsets else 0))
        largest = call.query.new_zeros(full, dtype=call.exact)
        for rows in blocks_of(shape.queries):
            keep = slice(None) if chosen is None else chosen[rows.start : rows.stop]
            for tile in tiles_of(call, rows):
                here = slice(tile.cols.start, tile.cols.stop)
                p = inside(weights_of(tile, state), tile)[..., keep, :]
                part = p
                if asked.by is not None:
                    part = p * asked.by[..., rows.start : rows.stop, None][..., keep, :]
                mass[..., here] += part.sum(-2)
                if asked.largest and part.shape[-2]:
                    largest[..., here] = torch.maximum(largest[..., here], part.amax(-2))
                if asked.offsets:
                    _add_diagonals(diagonals, p, rows, tile.cols, keep, shape.queries)
                if asked.seen:
                    count[..., here] += (inside(tile.scores, tile) != -torch.inf)[..., keep, :].sum(
                        -2
                    )
                if y is not None and product is not None:
                    factor = y[..., rows.start : rows.stop, :].to(call.exact)[..., keep, :]
                    product[..., here, :] += p.mT @ factor
        return ColumnAnswers(
            mass.to(call.exact), count if asked.seen else None, product,
            diagonals.to(call.exact) if asked.offsets else None, largest if asked.largest else None,
        )  # fmt: skip

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def cells(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """Every tile that holds a wanted cell, computed whole."""
        size = tuple(len(part) for part in place)
        hidden = 0.0 if what == "weights" else -torch.inf
        found = call.query.new_full(size, hidden, dtype=call.exact)
        for rows in blocks_of(call.shape.queries):
            at_rows = places_in(place.rows, rows)
            if not len(at_rows):
                continue
            for tile in tiles_of(call, rows, wanted=place.cols):
                at_cols = places_in(place.cols, tile.cols)
                cells = weights_of(tile, state) if what == "weights" else tile.scores
                cells = cells.flatten(0, -3)[place.units]
                cells = cells[:, place.rows[at_rows] - rows.start][
                    :, :, place.cols[at_cols] - tile.cols.start
                ]
                found[:, at_rows[:, None], at_cols[None, :]] = cells
        return found

    # ── backward ─────────────────────────────────────────────────────────────────────────────

    def backward(
        self,
        call: Call,
        state: RowState,
        grad_output: Tensor,
        shift: Tensor,
        slope: Tensor | None,
        mass: bool = False,
    ) -> Gradients:
        """dS = p (dP − shift − slope (s − lse)); every tile adds its part to each gradient."""
        shape, exact = call.shape, call.exact
        query, key, value = (t.detach().to(exact) for t in (call.query, call.key, call.value))
        grads = [torch.zeros_like(t) for t in (query, key, value)]
        bias = BiasGradient(call.score.bias, shape.extent, exact)
        columns = (*shape.batch, shape.query_heads, shape.keys) if mass else (0,)
        received = query.new_zeros(columns, dtype=torch.float64)
        for rows in blocks_of(shape.queries):
            here = slice(rows.start, rows.stop)
            go = grad_output[..., here, :].to(exact)
            for tile in tiles_of(call, rows):
                there = slice(tile.cols.start, tile.cols.stop)
                k, v = (t[..., there, :].repeat_interleave(shape.group, -3) for t in (key, value))
                p = inside(weights_of(tile, state), tile)
                if mass:
                    received[..., there] += p.sum(-2)
                kept = kept_by_dropout(call, tile)
                dp = go @ v.mT if kept is None else (go @ v.mT) * kept
                inner = dp - shift[..., here, None]
                if slope is not None:
                    u = inside(tile.scores, tile) - state.lse[..., here, None]
                    inner = inner - slope[..., here, None] * torch.where(p > 0, u, 0.0)
                ds = torch.where(p > 0, p * inner, 0.0)
                i = torch.arange(rows.start, rows.stop, device=ds.device)
                j = torch.arange(tile.cols.start, tile.cols.stop, device=ds.device)
                bias.add(i, j, ds)
                if tile.slope is not None:
                    ds = ds * inside(tile.slope, tile)
                ds = ds * call.score.scale
                dq, dk = call.score.carry(query[..., here, :], k, ds)
                grads[0][..., here, :] += dq
                grads[1][..., there, :] += grouped(dk, shape.group)
                pv = p if kept is None else p * kept
                grads[2][..., there, :] += grouped(pv.mT @ go, shape.group)
        sink = [] if call.score.sink is None else [None]  # no key here; see carry.py
        found = received.to(exact) if mass else None
        return Gradients(grads[0], grads[1], grads[2], [*bias.sums, *sink], found)


def _add_diagonals(
    sums: Tensor, p: Tensor, rows: range, cols: range, keep: slice | Tensor, queries: int
) -> None:
    """Shear the tile, so that its diagonals stand in columns: no atomics on any device."""
    i = torch.arange(rows.start, rows.stop, device=p.device)[keep]
    wide = len(rows) + len(cols) - 1
    shear = p.new_zeros((*p.shape[:-1], wide))
    at = torch.arange(len(cols), device=p.device) - (i[:, None] - (rows.stop - 1))
    shear.scatter_(-1, at.expand(p.shape), p)
    first = cols.start - (rows.stop - 1) + queries - 1
    sums[..., first : first + wide] += shear.sum(-2)


TILED = TiledSweeps()
