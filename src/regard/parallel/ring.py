"""ring(): keys and values go round, queries stay.

first ring    output, lse and every statistic that merges over keys, merged block by block
second ring   keys alone, once every row's lse over all keys is known: what sums over queries
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.engine import ops
from regard.engine.backend import MASS, ColumnAnswers
from regard.engine.call import RowState, map_parts, parts_of
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
from regard.summary import ColumnStatistic, ColumnSums, Entropy, Summary
from regard.summary.base import InBlocks, fewest
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
        return map_parts(value, lambda part: self._refusing(part, type(summary).__name__))

    def _refusing(self, value: Tensor, what: str) -> Any:
        if not value.is_floating_point():
            return value
        tensors = (self._query, self._key, *self._arrays)
        return RefusedGradient.apply(value, what, *tensors)  # type: ignore[no-untyped-call]

    def _lookup(self, summary: Summary) -> Any:
        """A known value, also where it is part of a larger one."""
        if summary in self._known:
            return self._known[summary]
        return summary.answer(self._known, self._problem.shape)

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
    axis = parts[0].lse.ndim - 1
    return Partial(
        torch.cat([part.out for part in parts], -2),
        torch.cat([part.lse for part in parts], -1),
        {s: _cat([part.summaries[s] for part in parts], axis) for s in parts[0].summaries},
        torch.cat([_rest(part) for part in parts], -1),
    )


def _cat(values: list[Any], axis: int) -> Any:
    sides = zip(*map(parts_of, values), strict=True)
    return map_parts(values[0], lambda _: torch.cat(next(sides), axis))


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
        asked = ((s, s.source().column_sums()) for s in summaries)
        self.sums = {s: sums for s, sums in asked if sums is not None}
        self.offsets: Tensor | None = None
        # which queries count, and what is needed of each key
        self.choices: dict[Any, ColumnSums] = {}
        for sums in self.sums.values():
            before = self.choices.get(sums.queries, MASS)
            self.choices[sums.queries] = ColumnSums.together([before, sums])
            if sums.offsets:  # diagonals come along with the mass of all queries
                self.offsets = self._zeros(max(2 * problem.tokens - 1, 0))
        self.declared = [s for s in summaries if isinstance(s, ColumnStatistic)]
        filling = ((s, s.in_blocks(problem.shape, state.peak)) for s in summaries)
        self.maps = {s: each for s, each in filling if each is not None}

    def run(self) -> dict[Summary, Tensor]:
        """Each summary's value: of this rank's keys, or of the whole matrix."""
        peers, lengths = self.problem.peers, self.problem.shards.lengths
        joins = [join for asked in self.choices.values() for join in _joins(asked)]
        received = RingReduceScatter(peers, lengths, axis=-1, joining=joins)
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
        found = {
            queries: ColumnAnswers(
                next(sums), next(sums) if asked.seen else None, None,
                largest=next(sums) if asked.largest else None,
            )
            for queries, asked in self.choices.items()
        }  # fmt: skip
        if self.offsets is not None:
            whole = all_reduce(peers, self.offsets, "adding up maps")
            found[None] = found[None]._replace(offsets=whole)
        terms = dict(zip(self.declared, declared.result() if self.declared else (), strict=True))
        return {summary: self._finish(summary, found, terms) for summary in self.summaries}

    def _declared(self, owner: int, key: Tensor) -> list[Tensor]:
        """The terms of statistics of keys, from this rank's queries: (…, Hq, keys of the owner)."""
        terms = [self._zeros(key.shape[-2]) for _ in self.declared]
        for rows, at, cols, there in self.problem.blocks(owner):
            parts, _ = self._measure(self.declared, rows, at, key[..., there, :], cols)
            for summary, term, part in zip(self.declared, terms, parts, strict=True):
                term[..., there] = summary.joined(term[..., there], part)
        return terms

    def _received(self, owner: int, key: Tensor) -> list[Tensor]:
        """Mass, and perhaps a count and the largest weight, for each choice of queries:
        (…, Hq, keys of the owner)."""
        sums: list[Tensor] = []
        for queries, asked in self.choices.items():
            mass, largest = self._zeros(key.shape[-2]), self._zeros(key.shape[-2])
            count = torch.zeros_like(mass, dtype=torch.int64)
            chosen = torch.zeros(self.problem.tokens, dtype=torch.bool, device=key.device)
            chosen[query_indices(queries, self.problem.tokens, key.device)] = True
            for rows, at, cols, there in self.problem.blocks(owner):
                part = None if queries is None else chosen[rows.start : rows.stop]
                sweep = self._column_sweep(rows, at, key[..., there, :], cols, part, asked)
                mass[..., there] += sweep[0]
                if asked.seen:
                    count[..., there] += sweep[1]
                if asked.largest:
                    largest[..., there] = torch.maximum(largest[..., there], sweep[4])
            sums += [mass, *([count] if asked.seen else []), *([largest] if asked.largest else [])]
        return sums

    def _column_sweep(
        self,
        rows: Piece,
        at: slice,
        key: Tensor,
        cols: Piece,
        chosen: Tensor | None,
        asked: ColumnSums,
    ) -> list[Tensor]:
        diagonals = self.offsets is not None and chosen is None
        query, state = self._rows(at)
        call = self.problem.call(query, key, key[..., :0], rows, cols, sink=False)
        arrays, spec = self.problem.operands(
            call, seen=asked.seen, offsets=diagonals, largest=asked.largest
        )
        sweep = ops.columns(query, key, arrays, state, chosen, None, spec, None)
        if diagonals and self.offsets is not None:
            first = self.problem.tokens - rows.length + cols.start - rows.start
            self.offsets[..., first : first + sweep[3].shape[-1]] += sweep[3]
        return sweep

    def _pool(self, each: InBlocks, owner: int, key: Tensor) -> None:
        for rows, at, cols, there in self.problem.blocks(owner):
            for down, q_at in _cuts(rows, at, each.cell):
                for across, k_at in _cuts(cols, there, each.cell):
                    if self.problem.verdict(down, across) is not Verdict.NONE:
                        k = key[..., k_at, :]
                        (cells,), shape = self._measure([each.asked], down, q_at, k, across)
                        each.add(down.start, across.start, cells, shape)

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
        found: dict[Any, ColumnAnswers],
        terms: dict[ColumnStatistic, Tensor],
    ) -> Any:
        if isinstance(summary, ColumnStatistic):
            return summary.close(terms[summary], self.problem.shape)
        if summary in self.sums:
            sums, source = self.sums[summary], summary.source()
            brought = {source: source.packed(found[sums.queries].of(sums))}
            return summary.answer(brought, self.problem.shape)
        if summary in self.maps:
            each = self.maps[summary]
            op = dist.ReduceOp.MAX if each.join == "max" else dist.ReduceOp.SUM
            return each.close(all_reduce(self.problem.peers, each.cells, "adding up maps", op))
        raise InputError(
            f"{summary!r} neither merges over keys nor is a statistic of keys: a ring cannot "
            "measure it; ulysses() can"
        )


def _joins(asked: ColumnSums) -> list[Callable[[Tensor, Tensor], Tensor]]:
    """How what each choice of queries brings joins that of other queries."""
    adding: list[Callable[[Tensor, Tensor], Tensor]] = [Tensor.add_] * (2 if asked.seen else 1)
    return [*adding, torch.maximum] if asked.largest else adding


def _cuts(piece: Piece, at: slice, cell: int) -> list[tuple[Piece, slice]]:
    """Parts of a piece that begin where cells do, with their places among the rank's tokens."""
    moved = at.start - piece.start
    return [(part, slice(part.start + moved, part.stop + moved)) for part in piece.cut(cell)]
