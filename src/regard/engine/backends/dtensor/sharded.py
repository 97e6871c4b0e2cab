"""The implementation for DTensors: this rank's share by whichever implementation can serve it.

Results that have one entry per query or head are DTensors placed like the query, mass received by
keys is a sum over the ranks that share the queries (`Partial()`). Cells and rows that are asked
for by number are few: every rank gets them, as a plain tensor. All ranks must ask the same
questions in the same order, as with every DTensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement

from regard.engine import ops
from regard.engine.backends.dtensor.layout import Layout
from regard.engine.backends.dtensor.narrow import narrow_call, narrow_summary
from regard.engine.call import Answers, Call, Known, Place, Problem, RowState, What, map_parts
from regard.engine.codec import Spec
from regard.engine.plan import Implementation, choose
from regard.errors import UnavailableError
from regard.summary import ColumnSums, Measured, Received, Summary, Weighted
from regard.summary.columns import query_indices


@dataclass(eq=False)
class _RankShare:
    """What this rank has of a call."""

    layout: Layout
    call: Call  # over plain tensors
    implementation: Implementation
    known: Known = field(default_factory=Known)

    def state(self, state: RowState) -> RowState:
        """This rank's rows of a state."""
        return RowState(*(self.layout.local(part, self.layout.rows()) for part in state))

    def measure(self, state: RowState, summaries: tuple[Summary, ...]) -> dict[Summary, Any]:
        """Of this rank's rows."""
        return self.implementation.measure(self.call, self.state(state), summaries, self.known)


class Sharded:
    """Attention over DTensors."""

    def __init__(self, wanted: str | None) -> None:
        self.name = "sharded"
        self._wanted = wanted
        self._shares: WeakKeyDictionary[Call, dict[bool, _RankShare]] = WeakKeyDictionary()

    def unavailable(self) -> list[str]:
        """It runs wherever DTensors do."""
        return []

    def reasons(self, problem: Problem) -> list[str]:
        """Each rank's own implementation has its reasons."""
        return []

    # ── the forward ──────────────────────────────────────────────────────────────────────────

    def attend(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """This rank's rows; what is summed over ranks is asked when it is wanted."""
        if call.dropout:
            raise UnavailableError(
                f"dropout={call.dropout} on DTensors is not offered: it would not be the same on "
                "one rank and on many; drop out of the output instead"
            )
        of_rows = tuple(summary for summary in summaries if summary.about == "queries")
        share = self._share(call, of_rows)
        asked = tuple(narrow_summary(summary, share.layout) for summary in of_rows)
        found = share.implementation.attend(share.call, asked)
        share.known.values.update(found.known.values)
        share.known.entropy = found.known.entropy
        output, lse = (
            _rows(share.layout, cast(Tensor, part)) for part in (found.output, found.lse)
        )
        return Answers(output, lse, Known(_several(share)), _whole_state(share.layout, found.state))

    def alone(self, call: Call) -> None:
        """By `attend`."""

    def lse(self, call: Call, state: RowState | None = None) -> Tensor:
        """As the forward has it, or of a known state."""
        if state is None:
            return cast(Tensor, self.attend(call, ()).lse)
        share = self._share(call)
        return _rows(share.layout, share.implementation.lse(share.call, share.state(state)))

    def state(
        self, call: Call, along: tuple[Summary, ...] = (), known: Known | None = None
    ) -> RowState:
        """Of every rank's rows."""
        share = self._share(call)
        found = share.implementation.state(share.call)
        return RowState(*(_rows(share.layout, part) for part in found))

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def measure(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
    ) -> dict[Summary, Any]:
        """Statistics of rows in one sweep, those of columns and regions in one each."""
        share = self._share(call)
        rows = [summary for summary in summaries if summary.about == "queries"]
        of_rows = {s: narrow_summary(s, share.layout) for s in rows}
        measured = share.measure(state, tuple(of_rows.values()))
        known.values.update(_several(share))
        found: dict[Summary, Any] = {}
        for summary in summaries:
            sums = summary.source().column_sums()
            if summary in of_rows:
                answer = measured[of_rows[summary]]
                found[summary] = map_parts(answer, lambda part: _rows(share.layout, part))
            elif sums is not None and not sums.offsets:
                found[summary] = _of_mass(share, state, summary, sums)
            else:  # all else needs every query of a head at once
                whole = self._share(call, gathered=True)
                answer = whole.measure(state, (summary,))[summary]
                found[summary] = _heads(whole.layout, answer, whole.layout.entries())
        return found

    def block(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): each rank adds the cells it has."""
        share = self._share(call)
        layout = share.layout
        units, here = _units(layout, place.units)
        rows = place.rows - layout.queries.start
        there = ((rows >= 0) & (rows < len(layout.queries))).nonzero().squeeze(-1)
        mine = Place(units[here], rows[there], place.cols)
        found = share.implementation.block(share.call, share.state(state), mine, what)
        full = found.new_zeros([len(part) for part in place])
        full = full.index_put((here[:, None], there), found)
        summed = layout.spread(full, full.shape, layout.summed())
        return summed.redistribute(layout.mesh, layout.everywhere()).to_local()

    def apply(self, call: Call, state: RowState, x: Tensor) -> Tensor:
        """A @ x for x (*batch, Hq, S, M)."""
        share = self._share(call)
        local = share.layout.local(x, share.layout.entries())
        found = share.implementation.apply(share.call, share.state(state), local)
        return _rows(share.layout, found)

    def apply_transposed(self, call: Call, state: RowState, y: Tensor) -> Tensor:
        """Aᵀ @ y for y (*batch, Hq, L, M)."""
        share = self._share(call)
        local = share.layout.local(y, share.layout.rows())
        found = share.implementation.apply_transposed(share.call, share.state(state), local)
        return _heads(share.layout, found, share.layout.columns())

    # ── shares ───────────────────────────────────────────────────────────────────────────────

    def _share(
        self, call: Call, summaries: tuple[Summary, ...] = (), gathered: bool = False
    ) -> _RankShare:
        """This rank's share of a call, made once: gathering is not free."""
        made = self._shares.setdefault(call, {})
        layout = Layout.of(call.query, call.key, call.value, call.shape)
        gathered = gathered and layout.splits_queries
        if gathered not in made:
            layout = layout.gathered() if gathered else layout
            local = narrow_call(call, layout)
            chosen = choose(local.problem(summaries), self._wanted)
            made[gathered] = _RankShare(layout, local, chosen)
        return made[gathered]


# ── this rank's part → the whole ─────────────────────────────────────────────────────────────


def _rows(layout: Layout, local: Tensor) -> DTensor:
    """(*batch, Hq, L, …)."""
    shape, tail = layout.shape, local.shape[layout.head_axis + 2 :]
    full = (*shape.batch, shape.query_heads, shape.queries, *tail)
    return layout.spread(local, full, layout.rows())


def _heads(layout: Layout, local: Tensor, placements: Sequence[Placement]) -> DTensor:
    """(*batch, Hq, …)."""
    shape, tail = layout.shape, local.shape[layout.head_axis + 1 :]
    return layout.spread(local, (*shape.batch, shape.query_heads, *tail), placements)


def _whole_state(layout: Layout, state: RowState | None) -> RowState | None:
    return None if state is None else RowState(*(_rows(layout, part) for part in state))


def _several(share: _RankShare) -> dict[Summary, Measured]:
    """What was measured of rows as several tensors: parts are merged by more than their answer,
    the heaviest keys by scores."""
    known = share.known.values.items()
    several = {m: v for m, v in known if m.about == "queries" and not isinstance(v, Tensor)}
    return {m: map_parts(v, lambda part: _rows(share.layout, part)) for m, v in several.items()}


def _units(layout: Layout, units: Tensor) -> tuple[Tensor, Tensor]:
    """Heads, counted over the batch: their numbers on this rank, and which of them it has."""
    spans = (*layout.batch, layout.heads)
    sizes = (*layout.shape.batch, layout.shape.query_heads)
    local, mine = torch.zeros_like(units), torch.ones_like(units, dtype=torch.bool)
    left, step = units, 1
    for size, span in zip(reversed(sizes), reversed(spans), strict=True):
        at = left % size - span.start
        mine = mine & (at >= 0) & (at < len(span))
        local, left, step = local + at * step, left // size, step * len(span)
    return local, mine.nonzero().squeeze(-1)


# ── mass received ────────────────────────────────────────────────────────────────────────────


def _of_mass(share: _RankShare, state: RowState, summary: Summary, sums: ColumnSums) -> Tensor:
    """The mass from this rank's queries; a plain sum is left to whoever needs it whole."""
    layout, mine = share.layout, None
    if sums.queries is not None:
        all_of = query_indices(sums.queries, layout.shape.queries, torch.device("cpu"))
        mine = tuple(n - layout.queries.start for n in all_of.tolist() if n in layout.queries)
    # where none of them is here the answer is 0, by the same operators: other ranks wait for them
    how: Literal["sum", "max"] = "max" if sums.largest else "sum"
    plain: Summary = Received(mine, how=how)
    if sums.by is not None:
        own = narrow_summary(summary.source(), layout).column_sums()
        plain = Weighted(Received(mine, how=how), cast(ColumnSums, own).by)
    join = layout.columns(how)
    mass = _heads(layout, share.measure(state, (plain,))[plain], join)
    if summary == Received(sums.queries):
        return mass
    parts = [mass]
    if sums.seen:
        seen = _seen(share.call, share.state(state), mine)
        parts.append(_heads(layout, seen, layout.columns()))
    return _finished(layout, summary, parts)


def _seen(call: Call, state: RowState, queries: tuple[int, ...] | None) -> Tensor:
    """(…, Hq, S): how many of these queries may see each key."""
    chosen = None
    if queries is not None:
        chosen = torch.zeros(call.shape.queries, dtype=torch.bool, device=call.query.device)
        chosen[list(queries)] = True
    call = call.map(lambda tensor: tensor.detach())
    arrays = [] if call.mask is None else list(call.mask.arrays())
    spec = replace(Spec.of(call.mask, call.score), place=call.place).asking(seen=True)
    given = (call.query, call.key, [*arrays, *call.score.arrays()], list(state), chosen, None)
    return ops.columns(*given, spec, None)[1]


def _finished(layout: Layout, summary: Summary, sums: list[DTensor]) -> DTensor:
    """The answer, where mass and count are those of all queries and whole groups."""
    placements = layout.entries() if layout.splits_keys else layout.entries(heads=False)
    parts = [part.redistribute(layout.mesh, placements).to_local() for part in sums]
    heads, group, source = parts[0].shape[-2], layout.shape.group, summary.source()
    own = replace(layout.shape, query_heads=heads, key_heads=heads // group)
    found = summary.answer({source: source.packed(parts)}, own)
    alone = found.shape[-2] == heads  # not summed over the heads of a group
    heads = layout.shape.query_heads if alone else layout.shape.key_heads
    full = (*layout.shape.batch, heads, layout.shape.keys)
    return layout.spread(found, full, placements)
