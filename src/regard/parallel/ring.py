"""ring(): keys and values go round, queries stay.

first ring    output, lse and every statistic that merges over keys, merged block by block
second ring   keys alone, once every row's lse over all keys is known: what sums over queries
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
from regard.errors import InputError, StaleError
from regard.mask import Mask, Verdict
from regard.parallel.problem import QKV, ParallelAttention, ShardedProblem, open_problem
from regard.parallel.ring_backward import RefusedGradient, RingGradients
from regard.parallel.shards import EMPTY, Piece, Shards
from regard.parallel.transport import RingReduceScatter, all_reduce, circulate
from regard.score import Bias
from regard.shapes import AttentionShape
from regard.state import Finished, Partial, merge
from regard.summary import (
    ColumnStatistic,
    Entropy,
    Offsets,
    Pooled,
    Received,
    Summary,
    TopKeys,
    TopScored,
    TopScores,
)
from regard.summary.base import fewest
from regard.summary.columns import query_indices


def ring(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    shards: Shards,
    group: Any = None,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    summaries: tuple[Summary, ...] = (),
    implementation: str | None = None,
    check: bool = True,
) -> RingAttention:
    """Attention over all ranks' tokens; keys and values travel, queries stay.

    query (…, Hq, n, D), key (…, Hkv, n, D), value (…, Hkv, n, Dv): this rank's tokens, in the
    order of its pieces. A collective: every rank of the group calls it with the same rules.

    shards          which tokens each rank holds: Shards.even, .contiguous or .zigzag (balances
                    causal masks)
    group           a ProcessGroup, a DeviceMesh of one axis, or None for all ranks
    mask, bias      of the WHOLE sequence, as one rank would give them to `regard.attend`
    summaries       what to measure on the way. Those that merge over keys cost no further trip;
                    Received, Pooled and Offsets send the keys round once more
    implementation  of every block; without it the fastest that can serve the block
    check           whether the ranks first compare their arguments, here and before every later
                    question: a few numbers go round

    While a block is computed, the next keys and values are in flight. Blocks that the mask hides
    are left out. Gradients of a bias and of the sink are sums over all ranks: do not add them up
    again.
    """
    tensors, score = (query, key, value), (scale, softcap, bias, sink)
    return RingAttention(
        *open_problem("ring", tensors, shards, group, mask, score, summaries, implementation, check)
    )


class RingAttention(ParallelAttention):
    """Attention of this rank's queries over the keys of all ranks.

    What the first ring measured (`summaries=`) is answered at once. Any other question sends the
    keys round once more, so it is a collective: **every rank must ask it, in the same order**.
    What was asked once is known.

    output, lse and entropy have gradients; their backward is a ring too, so every rank must run
    it. Asking for a gradient of anything else raises GradientError.
    """

    def __init__(
        self, problem: ShardedProblem, tensors: QKV, summaries: tuple[Summary, ...]
    ) -> None:
        super().__init__(problem)
        self._query, self._key = tensors[:2]
        self._arrays = list(problem.score.arrays())
        self._versions = self._current_versions()
        self._graph = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, *self._arrays)
        )
        result = self._first_ring(tensors, summaries)
        self._state = RowState(result.lse, _rest(result))
        self._output, self._lse = result.output.to(self._query.dtype), result.lse
        self._entropy: Tensor | None = None
        if self._graph:
            self._output, self._lse, self._entropy = self._with_gradients(tensors, self._output)
        self._fill(summaries)

    def __repr__(self) -> str:
        pieces = [tuple(piece) for piece in self.shards.pieces[self.rank]]
        return (
            f"RingAttention(shape={self.shape}, rank {self.rank} of {self.shards.world}, "
            f"pieces={pieces}, mask={self._problem.mask!r})"
        )

    def _first_ring(self, tensors: QKV, summaries: Sequence[Summary]) -> Finished:
        """A first ring, which also measures whatever merges."""
        merging = _merging(summaries)
        sink = self._sink()
        part = _first_ring(self._problem, tensors, merging)
        result = part.finish(None if sink is None else sink.detach())
        self._known |= {summary: result[summary] for summary in merging}
        return result

    def _fill(self, summaries: Sequence[Summary]) -> None:
        """In one ring of each kind."""
        rows = [summary for summary in _merging(summaries) if self._lookup(summary) is None]
        if rows:
            self._first_ring(self._without_values(), rows)
        columns = [
            summary
            for summary in dict.fromkeys(summaries)
            if not summary.source().merges and summary not in self._known
        ]
        if columns:
            with torch.no_grad():
                query, key = self._query.detach(), self._key.detach()
                self._known |= _SecondRing(self._problem, query, key, self._state, columns).run()

    def _without_values(self) -> QKV:
        return self._query, self._key, self._key[..., :0]

    def _with_gradients(self, tensors: QKV, output: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Output, lse and, where it is known, entropy with their gradients."""
        entropy = self._known.get(Entropy())
        found = RingGradients.apply(  # type: ignore[no-untyped-call]
            self._problem, output, self._state, entropy, *tensors, *self._arrays
        )
        return found[0], found[1], None if entropy is None else found[2]

    def _answer(self, summary: Summary) -> Any:
        value = self._lookup(summary)
        if not self._graph or summary.gradient == "constant":
            return value
        if summary.gradient == "entropy":
            if self._entropy is None:  # asked late: it gets a ring of gradients of its own
                nothing = self._query.detach()[..., :0]
                self._entropy = self._with_gradients(self._without_values(), nothing)[2]
            return self._entropy
        if isinstance(value, TopKeys):
            return TopKeys(self._refusing(value.weights, summary), value.keys)
        return self._refusing(value, summary)

    def _refusing(self, value: Tensor, summary: Summary) -> Any:
        tensors = (self._query, self._key, *self._arrays)
        return RefusedGradient.apply(  # type: ignore[no-untyped-call]
            value, type(summary).__name__, *tensors
        )

    def _lookup(self, summary: Summary) -> Any:
        """A known value, also where it is part of a larger one."""
        if summary in self._known:
            return self._known[summary]
        best = {m: v for m, v in self._known.items() if isinstance(v, TopKeys)}
        scored = {m: TopScored(*value, value.weights) for m, value in best.items()}
        return summary.answer(scored, self._problem.shape)

    def _current_versions(self) -> tuple[int, ...]:
        """How often each tensor that defines the matrix was written to."""
        mask = [] if self._problem.mask is None else self._problem.mask.arrays()
        watched = (self._query, self._key, *self._arrays, *mask)
        return tuple(-1 if tensor.is_inference() else tensor._version for tensor in watched)

    def _check_fresh(self) -> None:
        if self._versions != self._current_versions():
            raise StaleError(
                "query, key, mask or bias was changed in place after this ring, so its weights can "
                "no longer be recovered; ask before the change, or pass clones"
            )


def _merging(summaries: Sequence[Summary]) -> list[Summary]:
    """What a first ring has to measure for these: one top-k, the largest, serves all."""
    merging = [source for s in summaries if (source := s.source()).merges]
    return fewest([*merging, *(other for s in merging for other in s.merges_with)])


# ── first ring ───────────────────────────────────────────────────────────────────────────────


def _first_ring(problem: ShardedProblem, tensors: QKV, summaries: Sequence[Summary]) -> Partial:
    """Output, lse and statistics of this rank's queries over the keys of all ranks."""
    query, key, value = (tensor.detach() for tensor in tensors)
    peers, shards = problem.peers, problem.shards
    parts: dict[Piece, Partial] = {}
    with torch.no_grad(), closing(circulate(peers, [key, value], shards.lengths)) as tour:
        for owner, (k, v) in tour:
            for rows, at, cols, there in problem.blocks(owner):
                block = query[..., at, :], k[..., there, :], v[..., there, :]
                part = problem.partial(*block, rows, cols, summaries)
                parts[rows] = merge(parts[rows], part) if rows in parts else part
        # a rank without tokens still has a result, of no rows
        return _concatenated(
            [
                parts[rows]
                if rows in parts
                else problem.partial_without_keys(query[..., at, :], key, value, rows, summaries)
                for rows, at in shards.local(peers.rank) or [(EMPTY, slice(0, 0))]
            ]
        )


def _concatenated(parts: list[Partial]) -> Partial:
    """Partials of different queries as one."""
    if len(parts) == 1:
        return parts[0]
    return Partial(
        torch.cat([part.out for part in parts], -2),
        torch.cat([part.lse for part in parts], -1),
        {s: _cat([part.summaries[s] for part in parts]) for s in parts[0].summaries},
        torch.cat([_rest(part) for part in parts], -1),
    )


def _cat(values: list[Any]) -> Any:
    if isinstance(values[0], TopScores):
        return TopScores(*(torch.cat(list(side), -2) for side in zip(*values, strict=True)))
    return torch.cat(values, -1)


def _rest(part: Partial | Finished) -> Tensor:
    return torch.zeros_like(part.lse) if part.rest is None else part.rest


# ── second ring ──────────────────────────────────────────────────────────────────────────────


class _SecondRing:
    """One trip of the keys.

    received, statistics of keys   sums over queries, by a reduce-scatter that follows the keys
    pooled, offsets                every rank sums over its own queries, then an all-reduce
    """

    def __init__(
        self,
        problem: ShardedProblem,
        query: Tensor,
        key: Tensor,
        state: RowState,
        summaries: Sequence[Summary],
    ) -> None:
        self.problem, self.query, self.key, self.state = problem, query, key, state
        self.summaries = summaries
        self.offsets: Tensor | None = None
        received = [s for s in summaries if isinstance(s, Received)]
        if Offsets() in summaries:
            self.offsets = self._zeros(max(2 * problem.tokens - 1, 0))
            received.append(Received())  # diagonals come along with the mass of all queries
        # which queries count, and whether the number of those that see each key is needed
        self.choices: dict[Any, bool] = {}
        for summary in received:
            seen = self.choices.get(summary.queries, False)
            self.choices[summary.queries] = seen or summary.per == "visible"
        self.declared = [s for s in summaries if isinstance(s, ColumnStatistic)]
        self.maps = {
            s: _Map(s, problem.shape, state.peak) for s in summaries if isinstance(s, Pooled)
        }

    def run(self) -> dict[Summary, Tensor]:
        """Each summary's value: of this rank's keys, or of the whole matrix."""
        peers, lengths = self.problem.peers, self.problem.shards.lengths
        received = RingReduceScatter(peers, lengths, axis=-1)
        joining = [s.joined for s in self.declared]
        declared = RingReduceScatter(peers, lengths, axis=-1, joining=joining)
        with closing(circulate(peers, [self.key], lengths)) as tour:
            for owner, (key,) in tour:
                if self.choices:
                    received.add(self._received(owner, key))
                for each in self.maps.values():
                    self._pool(each, owner, key)
                if self.declared:
                    declared.add(self._declared(owner, key))
        sums = iter(received.result() if self.choices else [])
        mass = {
            queries: (next(sums), next(sums) if seen else self.state.peak.new_ones(()))
            for queries, seen in self.choices.items()
        }
        terms = dict(zip(self.declared, declared.result() if self.declared else (), strict=True))
        return {summary: self._finish(summary, mass, terms) for summary in self.summaries}

    def _declared(self, owner: int, key: Tensor) -> list[Tensor]:
        """The terms of statistics of keys, from this rank's queries: (…, Hq, keys of the owner)."""
        terms = [self._zeros(key.shape[-2]) for _ in self.declared]
        for rows, at, cols, there in self.problem.blocks(owner):
            parts, _ = self._measure(self.declared, rows, at, key[..., there, :], cols)
            for summary, term, part in zip(self.declared, terms, parts, strict=True):
                term[..., there] = summary.joined(term[..., there], part)
        return terms

    def _received(self, owner: int, key: Tensor) -> list[Tensor]:
        """Mass, and perhaps a count, for each choice of queries: (…, Hq, keys of the owner)."""
        sums: list[Tensor] = []
        for queries, seen in self.choices.items():
            mass = self._zeros(key.shape[-2])
            count = torch.zeros_like(mass, dtype=torch.int64)
            chosen = torch.zeros(self.problem.tokens, dtype=torch.bool, device=key.device)
            chosen[query_indices(queries, self.problem.tokens, key.device)] = True
            for rows, at, cols, there in self.problem.blocks(owner):
                part = None if queries is None else chosen[rows.start : rows.stop]
                sweep = self._column_sweep(rows, at, key[..., there, :], cols, part, seen)
                mass[..., there] += sweep[0]
                if seen:
                    count[..., there] += sweep[1]
            sums += [mass, count] if seen else [mass]
        return sums

    def _column_sweep(
        self, rows: Piece, at: slice, key: Tensor, cols: Piece, chosen: Tensor | None, seen: bool
    ) -> list[Tensor]:
        diagonals = self.offsets is not None and chosen is None
        query, state = self._rows(at)
        call = self.problem.call(query, key, key[..., :0], rows, cols, sink=False)
        arrays, spec = self.problem.operands(call, seen=seen, offsets=diagonals)
        sweep = ops.columns(query, key, arrays, state, chosen, None, spec)
        if diagonals and self.offsets is not None:
            first = self.problem.tokens - rows.length + cols.start - rows.start
            self.offsets[..., first : first + sweep[3].shape[-1]] += sweep[3]
        return sweep

    def _pool(self, each: _Map, owner: int, key: Tensor) -> None:
        """The engine counts cells from a block's first token, so blocks begin where cells do."""
        for rows, at, cols, there in self.problem.blocks(owner):
            for down, q_at in _cuts(rows, at, each.cell):
                for across, k_at in _cuts(cols, there, each.cell):
                    if self.problem.verdict(down, across) is not Verdict.NONE:
                        k = key[..., k_at, :]
                        (cells,), shape = self._measure([each.asked], down, q_at, k, across)
                        each.add(down, across, cells, shape)

    def _measure(
        self, summaries: Sequence[Summary], rows: Piece, at: slice, key: Tensor, cols: Piece
    ) -> tuple[list[Tensor], AttentionShape]:
        """Summaries of one block whose rows' lse is known, and the block's shape."""
        query, state = self._rows(at)
        call = self.problem.call(query, key, key[..., :0], rows, cols, sink=False)
        arrays, spec = self.problem.operands(call, asked=measure_text(summaries))
        marks = marks_of(summaries)
        found = ops.rows(query, key, key[..., :0], arrays, state, marks, None, spec)
        return found[4:], call.shape

    def _rows(self, at: slice) -> tuple[Tensor, list[Tensor]]:
        """Some of the queries, and the state of their rows."""
        return self.query[..., at, :], [part[..., at].contiguous() for part in self.state]

    def _zeros(self, size: int) -> Tensor:
        return self.state.peak.new_zeros((*self.state.peak.shape[:-1], size))

    def _finish(
        self,
        summary: Summary,
        mass: dict[Any, tuple[Tensor, Tensor]],
        terms: dict[ColumnStatistic, Tensor],
    ) -> Tensor:
        peers, doing = self.problem.peers, "adding up maps"
        if isinstance(summary, ColumnStatistic):
            return summary.close(terms[summary], self.problem.shape)
        if isinstance(summary, Received):
            return summary.finish(*mass[summary.queries], self.problem.shape)
        if isinstance(summary, Pooled):
            each = self.maps[summary]
            op = dist.ReduceOp.MAX if summary.how == "max" else dist.ReduceOp.SUM
            return each.divided(all_reduce(peers, each.cells, doing, op))
        if self.offsets is None or not isinstance(summary, Offsets):
            raise InputError(
                f"{summary!r} neither merges over keys nor is a statistic of keys: a ring cannot "
                "measure it; ulysses() can"
            )
        return all_reduce(peers, self.offsets, doing)


class _Map:
    """The pooled matrix, as far as this rank's queries have filled it."""

    def __init__(self, summary: Pooled, shape: AttentionShape, like: Tensor) -> None:
        self.summary, self.shape = summary, shape
        self.cell = summary.size(shape)
        self.asked = Pooled(self.cell, summary.how)
        side = -(-shape.keys // self.cell)
        self.cells = like.new_zeros((*like.shape[:-1], side, side))

    def add(self, rows: Piece, cols: Piece, cells: Tensor, shape: AttentionShape) -> None:
        """Cells of one block, divided by their area inside the block."""
        down, across = (
            slice(piece.start // self.cell, -(-piece.stop // self.cell)) for piece in (rows, cols)
        )
        here = self.cells[..., down, across]
        if self.summary.how == "max":
            torch.maximum(here, cells, out=here)
        else:
            here += cells * self.asked.area(shape, cells)

    def divided(self, cells: Tensor) -> Tensor:
        """Sums by the area inside the whole."""
        return cells if self.summary.how == "max" else cells / self.asked.area(self.shape, cells)


def _cuts(piece: Piece, at: slice, cell: int) -> list[tuple[Piece, slice]]:
    """Parts of a piece that begin where cells do, with their places among the rank's tokens."""
    moved = at.start - piece.start
    return [(part, slice(part.start + moved, part.stop + moved)) for part in piece.cut(cell)]
