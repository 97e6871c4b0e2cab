"""The row sweep: a block of queries on its way through the keys, by online softmax."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.engine.problem import Call, RowState
from regard.engine.sweeps import RowAnswers
from regard.engine.tiled.tile import KEYS, ROWS, Tile, kept_by_dropout, times
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Pooled,
    Summary,
    Top,
    TopKeys,
    Visible,
)

__all__ = ["Block", "assemble"]


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
        self.total, self.centred, self.squares, self.away = (new.new_zeros(lead) for _ in range(4))
        self.raw = new.new_full(lead, -torch.inf)
        self.visible = torch.zeros(lead, dtype=torch.int64, device=new.device)
        self.context = new.new_zeros((*lead, shape.value_dim))
        k = max((m.k for m in measures if isinstance(m, Top)), default=0)
        self.top_scores = new.new_full((*lead, k), -torch.inf)
        self.top_keys = torch.full((*lead, k), -1, dtype=torch.int64, device=new.device)
        self.matched = {m: new.new_zeros(lead) for m in measures if isinstance(m, Matching)}
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
        self.centred = a * (self.centred + delta * self.total) + (p * u).sum(-1)
        self.total = a * self.total + p.sum(-1)
        self.squares = a.square() * self.squares + p.square().sum(-1)
        self.away = a * self.away + (p * self._distances(tile)).sum(-1)
        for match, mass in self.matched.items():
            self.matched[match] = a * mass + self._matching(match, p, tile)
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

    def _watch(self, tile: Tile) -> None:
        """What needs the scores themselves: maxima, counts, the best keys."""
        s = tile.scores
        seen = s != -torch.inf
        self.raw = torch.maximum(self.raw, tile.scaled.masked_fill(~seen, -torch.inf).amax(-1))
        self.visible += seen.sum(-1)
        k = self.top_keys.shape[-1]
        if k:
            j = torch.arange(tile.cols.start, tile.cols.start + KEYS, device=s.device)
            keys = torch.where(seen, j, -1)
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

    def _distances(self, tile: Tile) -> Tensor:
        device = tile.scores.device
        i = torch.arange(tile.rows.start, tile.rows.start + ROWS, device=device)
        j = torch.arange(tile.cols.start, tile.cols.start + KEYS, device=device)
        return (i[:, None] + self.call.position - j[None, :]).abs()

    def _matching(self, match: Matching, p: Tensor, tile: Tile) -> Tensor:
        """(…, ROWS): the mass of this tile where marks agree."""
        i = torch.arange(tile.rows.start, tile.rows.stop, device=p.device) + self.call.position
        j = torch.arange(tile.cols.start, tile.cols.stop, device=p.device)
        rows, cols = (slice(r.start, r.stop) for r in (tile.rows, tile.cols))
        counts = match.among(i, j, rows, cols)
        inner = p[..., : len(tile.rows), : len(tile.cols)]
        return F.pad((inner * counts).sum(-1), (0, ROWS - len(tile.rows)))

    def _cell_index(self, m: Pooled, tile: Tile) -> Tensor:
        cell = m.size(self.call.shape)
        j = torch.arange(tile.cols.start, tile.cols.start + KEYS, device=tile.scores.device)
        return (j // cell).clamp(max=self.cells[m].shape[-1] - 1)

    def _cell_sums(self, m: Pooled, p: Tensor, tile: Tile) -> Tensor:
        """A product with an indicator: no atomics on any device."""
        columns = torch.arange(self.cells[m].shape[-1], device=p.device)
        return p @ (self._cell_index(m, tile)[:, None] == columns).to(p.dtype)

    def close(self, given: RowState | None) -> dict[Any, Any]:
        """Add the sink and divide: by one's own total, or by the lse that was given."""
        peak, total, centred, shrink = self.peak, self.total, self.centred, None
        if self.call.score.sink is not None:
            sink = self.call.score.sink.detach().to(peak.dtype)[:, None]
            now = torch.maximum(peak, sink)
            base = now.masked_fill(now == -torch.inf, 0.0)
            delta = torch.where(peak == -torch.inf, 0.0, peak - base)
            shrink = torch.where(peak == -torch.inf, 0.0, delta.exp())
            extra = (sink - base).exp()
            gap = torch.where(extra > 0, sink - base, 0.0)
            centred = shrink * (centred + delta * total) + extra * gap
            total, peak = shrink * total + extra, now
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

        found: dict[Any, Any] = {
            "peak": peak, "log": log, "output": self.context * divide[..., None],
            Entropy: torch.where(total == 0, 0.0, log - centred / total),
            MaxScore: self.raw, MaxLogit: self.peak, Visible: self.visible,
            Concentration: self.squares * inverse.square(), Distance: self.away * inverse,
            "top_weights": weight(self.top_scores), "top_keys": self.top_keys,
            "top_scores": self.top_scores,
        }  # fmt: skip
        for match, mass in self.matched.items():
            found[match] = mass * inverse
        for m, cells in self.cells.items():
            found[m] = cells * inverse[..., None] if m.how == "mean" else weight(cells)
        return found


def assemble(
    call: Call, blocks: list[dict[Any, Any]], output: bool, measures: tuple[Summary, ...]
) -> RowAnswers:
    """Blocks of rows back to back; pooled rows added up."""
    shape = call.shape
    axis = len(shape.batch) + 1

    def rows(name: Any) -> Tensor:
        if not blocks:
            return _empty(call, name, measures)
        return torch.cat([block[name] for block in blocks], axis).narrow(axis, 0, shape.queries)

    measured: dict[Any, Any] = {}
    for m in measures:
        if isinstance(m, Top):
            weights, keys = rows("top_weights"), rows("top_keys")
            measured[m] = TopKeys(weights[..., : m.k], keys[..., : m.k])
            measured["scores", m] = rows("top_scores")[..., : m.k]
        elif isinstance(m, Pooled):
            measured[m] = _pool_rows(m, rows(m), call)
        else:
            measured[m] = rows(m if isinstance(m, Matching) else type(m))
    return RowAnswers(
        rows("output") if output else None, RowState(rows("peak"), rows("log")), measured
    )


def _pool_rows(m: Pooled, cells: Tensor, call: Call) -> Tensor:
    """(…, L, columns) → (…, ⌈L/cell⌉, columns)."""
    cell = m.size(call.shape)
    tall = F.pad(cells, (0, 0, 0, -cells.shape[-2] % cell))
    *lead, rows, columns = tall.shape
    tall = tall.reshape(*lead, rows // cell, cell, columns)
    if m.how == "max":
        return tall.amax(-2) if tall.numel() else tall.sum(-2)
    return tall.sum(-2) / m.area(call.shape, cells)


def _empty(call: Call, name: Any, measures: tuple[Summary, ...]) -> Tensor:
    """No queries at all: the right number of axes and nothing in them."""
    shape = call.shape
    rows = (*shape.batch, shape.query_heads, 0)
    new = call.query.detach().to(call.exact)
    if name == "output":
        return new.new_zeros((*rows, shape.value_dim))
    if isinstance(name, Pooled):
        return new.new_zeros((*rows, -(-shape.keys // name.size(shape))))
    if name in ("top_weights", "top_keys", "top_scores"):
        dtype = torch.int64 if name == "top_keys" else new.dtype
        k = max(m.k for m in measures if isinstance(m, Top))
        return new.new_zeros((*rows, k), dtype=dtype)
    return new.new_zeros(rows, dtype=torch.int64 if name is Visible else new.dtype)
