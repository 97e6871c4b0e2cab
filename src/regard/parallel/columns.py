"""The second ring: keys alone come past, and every row's lse over all keys is known.

received   sums over queries: they travel with the keys they belong to and come home
pooled     every rank sums up the cells its queries fall into; the maps are then added up
offsets    likewise, by diagonal
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.engine import ops
from regard.engine.call import RowState
from regard.engine.codec import marks_of, measure_text
from regard.errors import InputError
from regard.mask import Verdict
from regard.parallel.failure import named
from regard.parallel.group import Peers
from regard.parallel.shards import Piece, Shards
from regard.parallel.travel import Luggage, around
from regard.parallel.whole import Whole
from regard.shapes import AttentionShape
from regard.summary import ColumnStatistic, Offsets, Pooled, Received, Summary
from regard.summary.columns import query_indices

__all__ = ["second_ring"]


def second_ring(
    ring: tuple[Peers, Shards, Whole],
    query: Tensor,
    key: Tensor,
    state: RowState,
    summaries: Sequence[Summary],
) -> dict[Summary, Tensor]:
    """Each summary's value: received for this rank's keys, the others for the whole matrix."""
    with torch.no_grad():
        return _Columns(ring, query.detach(), key.detach(), state, summaries).run()


class _Columns:
    """One trip of the keys."""

    def __init__(
        self,
        ring: tuple[Peers, Shards, Whole],
        query: Tensor,
        key: Tensor,
        state: RowState,
        summaries: Sequence[Summary],
    ) -> None:
        self.peers, self.shards, self.whole = ring
        self.query, self.key, self.state = query, key, state
        self.summaries = summaries
        self.offsets: Tensor | None = None
        received = [s for s in summaries if isinstance(s, Received)]
        if Offsets() in summaries:
            self.offsets = self._zeros(max(2 * self.whole.tokens - 1, 0))
            received.append(Received())  # diagonals come along with the mass of all queries
        # which queries count, and whether somebody wants to know how many may see each key
        self.choices: dict[Any, bool] = {}
        for summary in received:
            seen = self.choices.get(summary.queries, False)
            self.choices[summary.queries] = seen or summary.per == "visible"
        self.declared = [s for s in summaries if isinstance(s, ColumnStatistic)]
        self.maps = {
            s: _Map(s, self.whole.shape, state.peak) for s in summaries if isinstance(s, Pooled)
        }

    def run(self) -> dict[Summary, Tensor]:
        """All that was asked."""
        lengths = self.shards.lengths
        luggage = Luggage(self.peers, lengths, axis=-1)
        joining = [s.joined for s in self.declared]
        declared = Luggage(self.peers, lengths, axis=-1, joining=joining)
        with closing(around(self.peers, [self.key], lengths)) as tour:
            for owner, (key,) in tour:
                if self.choices:
                    luggage.add(self._columns(owner, key))
                for each in self.maps.values():
                    self._cells(each, owner, key)
                if self.declared:
                    declared.add(self._declared(owner, key))
        sums = iter(luggage.home() if self.choices else [])
        mass = {
            queries: (next(sums), next(sums) if seen else self.state.peak.new_ones(()))
            for queries, seen in self.choices.items()
        }
        terms = dict(zip(self.declared, declared.home() if self.declared else (), strict=True))
        return {summary: self._finish(summary, mass, terms) for summary in self.summaries}

    def _declared(self, owner: int, key: Tensor) -> list[Tensor]:
        """The terms of statistics of keys, from this rank's queries: (…, Hq, keys of the owner)."""
        terms = [self._zeros(key.shape[-2]) for _ in self.declared]
        for rows, at, cols, there in self._blocks(owner):
            query, state = self._rows(at)
            k = key[..., there, :]
            call = self.whole.call(query, k, k[..., :0], rows, cols, sink=False)
            arrays, spec = self.whole.asking(call, asked=measure_text(self.declared))
            marks = marks_of(self.declared)
            found = ops.rows(query, k, k[..., :0], arrays, state, marks, None, spec)[4:]
            for summary, term, part in zip(self.declared, terms, found, strict=True):
                term[..., there] = summary.joined(term[..., there], part)
        return terms

    def _columns(self, owner: int, key: Tensor) -> list[Tensor]:
        """Mass, and perhaps a count, for each choice of queries: (…, Hq, keys of the owner)."""
        sums: list[Tensor] = []
        for queries, seen in self.choices.items():
            mass = self._zeros(key.shape[-2])
            count = torch.zeros_like(mass, dtype=torch.int64)
            everyone = query_indices(queries, self.whole.tokens, key.device)
            chosen = torch.zeros(self.whole.tokens, dtype=torch.bool, device=key.device)
            chosen[everyone] = True
            for rows, at, cols, there in self._blocks(owner):
                part = None if queries is None else chosen[rows.start : rows.stop]
                found = self._column_sweep(rows, at, key[..., there, :], cols, part, seen)
                mass[..., there] += found[0]
                if seen:
                    count[..., there] += found[1]
            sums += [mass, count] if seen else [mass]
        return sums

    def _column_sweep(
        self,
        rows: Piece,
        at: slice,
        key: Tensor,
        cols: Piece,
        chosen: Tensor | None,
        seen: bool,
    ) -> list[Tensor]:
        diagonals = self.offsets is not None and chosen is None
        query, state = self._rows(at)
        call = self.whole.call(query, key, key[..., :0], rows, cols, sink=False)
        arrays, spec = self.whole.asking(call, seen=seen, offsets=diagonals)
        found = ops.columns(query, key, arrays, state, chosen, None, spec)
        if diagonals and self.offsets is not None:
            first = self.whole.tokens - rows.length + cols.start - rows.start
            self.offsets[..., first : first + found[3].shape[-1]] += found[3]
        return found

    def _cells(self, each: _Map, owner: int, key: Tensor) -> None:
        """The engine counts cells from a block's first token, so blocks begin where cells do."""
        for rows, at, cols, there in self._blocks(owner):
            for down, q_at in _cuts(rows, at, each.cell):
                query, state = self._rows(q_at)
                for across, k_at in _cuts(cols, there, each.cell):
                    if self.whole.verdict(down, across) is Verdict.NONE:
                        continue
                    k = key[..., k_at, :]
                    call = self.whole.call(query, k, k[..., :0], down, across, sink=False)
                    asked = measure_text([each.asked])
                    arrays, spec = self.whole.asking(call, asked=asked)
                    found = ops.rows(query, k, k[..., :0], arrays, state, [], None, spec)
                    each.add(down, across, found[4], call.shape)

    def _blocks(self, owner: int) -> list[tuple[Piece, slice, Piece, slice]]:
        return [
            (rows, at, cols, there)
            for rows, at in self.shards.local(self.peers.rank)
            for cols, there in self.shards.local(owner)
            if self.whole.verdict(rows, cols) is not Verdict.NONE
        ]

    def _rows(self, at: slice) -> tuple[Tensor, list[Tensor]]:
        """Some of the queries, and what the engine wants to know of their rows."""
        return self.query[..., at, :], [part[..., at].contiguous() for part in self.state]

    def _zeros(self, size: int) -> Tensor:
        return self.state.peak.new_zeros((*self.state.peak.shape[:-1], size))

    def _finish(
        self,
        summary: Summary,
        mass: dict[Any, tuple[Tensor, Tensor]],
        terms: dict[ColumnStatistic, Tensor],
    ) -> Tensor:
        if isinstance(summary, ColumnStatistic):
            return summary.close(terms[summary], self.whole.shape)
        if isinstance(summary, Received):
            return summary.finish(*mass[summary.queries], self.whole.shape)
        if isinstance(summary, Pooled):
            each = self.maps[summary]
            most = dist.ReduceOp.MAX if summary.how == "max" else dist.ReduceOp.SUM
            return each.divided(self._together(each.cells, most))
        if self.offsets is None or not isinstance(summary, Offsets):
            raise InputError(
                f"{summary!r} neither merges over keys nor is a statistic of keys: a ring cannot "
                "measure it; ulysses() can"
            )
        return self._together(self.offsets, dist.ReduceOp.SUM)

    def _together(self, tensor: Tensor, how: Any) -> Tensor:
        if self.peers.world > 1:
            with named(self.peers, None, "adding up maps"):
                dist.all_reduce(tensor, how, group=self.peers.group)
        return tensor


class _Map:
    """The whole matrix at a glance, as far as this rank's queries have filled it."""

    def __init__(self, summary: Pooled, shape: AttentionShape, like: Tensor) -> None:
        self.summary, self.shape = summary, shape
        self.cell = summary.size(shape)
        self.asked = Pooled(self.cell, summary.how)
        side = -(-shape.keys // self.cell)
        self.cells = like.new_zeros((*like.shape[:-1], side, side))

    def add(self, rows: Piece, cols: Piece, found: Tensor, shape: AttentionShape) -> None:
        """Cells of one block, divided by their area inside the block."""
        down, across = (
            slice(piece.start // self.cell, -(-piece.stop // self.cell)) for piece in (rows, cols)
        )
        here = self.cells[..., down, across]
        if self.summary.how == "max":
            torch.maximum(here, found, out=here)
        else:
            here += found * self.asked.area(shape, found)

    def divided(self, cells: Tensor) -> Tensor:
        """Sums by the area inside the whole."""
        return cells if self.summary.how == "max" else cells / self.asked.area(self.shape, cells)


def _cuts(piece: Piece, at: slice, cell: int) -> list[tuple[Piece, slice]]:
    """Parts of a piece that begin where cells do, with their places among the rank's tokens."""
    moved = at.start - piece.start
    return [(part, slice(part.start + moved, part.stop + moved)) for part in piece.cut(cell)]
