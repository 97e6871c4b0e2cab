"""Answers made of sweeps: which ones a question needs, and nothing swept twice.

    row sweep      entropy, max score, max logit, concentration, distance, visible, matching,
                   top, pooled
    column sweep   received, offsets; pooled, where these sweeps have it cheaper there
    backward       received by all queries, where asked for there
    none of them   peak and smaller top-k come out of a larger top-k; normalised entropy and
                   sink mass out of lse

What a sweep brought is kept (detached) with the attention it belongs to. A question with a
gradient gets its graph when it is asked, around the known value.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Literal, cast

import torch
from torch import Tensor

from regard.engine import ops
from regard.engine.brought import Brought, bringing
from regard.engine.eager import unwatched
from regard.engine.problem import Answers, Call, Place, Problem, RowState, What, map_answer
from regard.engine.spec import Spec, marks_of, measure_text
from regard.engine.sweeps import Sweeps, rows_and_columns
from regard.summary import (
    Entropy,
    Matching,
    Offsets,
    Peak,
    Pooled,
    Received,
    Summary,
    Top,
    TopKeys,
    Visible,
)
from regard.summary.received import query_indices

__all__ = ["Swept"]


class Swept:
    """An implementation made of the four sweeps."""

    def __init__(self, sweeps: Sweeps | None, asked: str | None = None) -> None:
        self.sweeps = sweeps  # None while tracing: the operator chooses when it runs
        self.name = asked or "" if sweeps is None else sweeps.name
        # one that was asked for by name while tracing: the operator checks that it can
        self._said = f"{asked}?" if asked else self.name

    def unavailable(self) -> list[str]:
        """Why it cannot run on this machine."""
        return [] if self.sweeps is None else self.sweeps.unavailable()

    def reasons(self, problem: Problem) -> list[str]:
        """Why it cannot serve this problem."""
        return [] if self.sweeps is None else self.sweeps.reasons(problem)

    # ── the forward ──────────────────────────────────────────────────────────────────────────

    def attend(
        self,
        call: Call,
        summaries: tuple[Summary, ...],
        aside: tuple[Summary, ...] = (),
        in_backward: bool = False,
    ) -> Answers:
        """One row sweep with everything that fits into it; a column sweep where asked for. What is
        measured aside leaves no trace in the graph. The mass of all queries may be left to the
        backward, where nobody but autograd will see that."""
        everything = (*summaries, *aside)
        measures = _measures(everything)
        if self.sweeps is not None and not call.dropout and unwatched(_all_tensors(call)):
            return self._attend_now(self.sweeps, call, everything, measures)
        in_graph = Entropy() in summaries
        brought = Brought() if in_backward and unwatched(()) else None
        spec = self._spec(call).asking(
            output=True, asked=measure_text(measures), dropout=call.dropout, aside=not in_graph,
            mass=brought is not None,
        )  # fmt: skip
        seed = torch.randint(2**31, ()) if call.dropout > 0 else None
        with nullcontext() if brought is None else bringing(brought):
            output, peak, log, lse, *flat = ops.sweep_rows(
                call.query, call.key, call.value, _arrays(call), [], marks_of(measures), seed, spec
            )
        known = _unflatten(flat, measures)
        state = RowState(peak.detach(), log.detach())
        kept = {summary: map_answer(value, Tensor.detach) for summary, value in known.items()}
        if in_graph:
            kept[_GRAPH] = known[Entropy()]  # from the same node as the output: one backward
        if brought is not None:
            kept[_BROUGHT] = brought
        answers = Answers(output, lse, kept, state)
        self._fill_columns(_detached_call(call), state, everything, kept)
        return answers

    def _attend_now(
        self,
        sweeps: Sweeps,
        call: Call,
        everything: tuple[Summary, ...],
        measures: tuple[Summary, ...],
    ) -> Answers:
        """The same where nobody looks: no operator, no text, no graph. All that comes back is
        contiguous, as the operator says it is."""
        found = rows_and_columns(sweeps, call, True, measures, None)
        known: dict[Any, Any] = {}
        for m in measures:
            value = found.measured[m]
            if isinstance(m, Received):
                known["mass", None] = value if isinstance(value, tuple) else (value, None)
                continue
            known[m] = value
            if isinstance(m, Top):
                known["scores", m] = found.measured["scores", m]
        known = {name: map_answer(value, Tensor.contiguous) for name, value in known.items()}
        state, output = map_answer(found.state, Tensor.contiguous), cast(Tensor, found.output)
        self._fill_columns(call, state, everything, known)
        return Answers(output.to(call.query.dtype).contiguous(), state.lse, known, state)

    def state(self, call: Call) -> RowState:
        """The row state alone, where nobody has it yet."""
        spec = self._spec(call).asking()
        call = _detached_call(call)
        _, peak, log, *_ = ops.sweep_rows(
            call.query, call.key, call.value[..., :0], _arrays(call), [], [], None, spec
        )
        return RowState(peak, log)

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def measure(
        self,
        call: Call,
        state: RowState,
        summaries: tuple[Summary, ...],
        known: dict[Any, Any],
    ) -> dict[Summary, Any]:
        """The summaries: known ones as they are, the rest in one sweep of each kind. Columns with
        a gradient are swept when they are answered, where they are not known."""
        _look_for_mass(known)
        graph = call.gradients
        alone = tuple(s for s in summaries if not (graph and isinstance(s, Received)))
        self._fill(_detached_call(call), state, alone, known)
        if not graph:
            self._fill_columns(call, state, summaries, known)
        return {summary: self._answer(call, state, summary, known) for summary in summaries}

    def _fill(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: dict[Any, Any]
    ) -> None:
        missing = _measures(tuple(s for s in summaries if _lookup(known, s) is None))
        if not missing:
            return
        spec, marks = self._spec(call).asking(asked=measure_text(missing)), marks_of(missing)
        nothing = call.value[..., :0]
        _, _, _, _, *flat = ops.sweep_rows(
            call.query, call.key, nothing, _arrays(call), list(state), marks, None, spec
        )
        known.update(_unflatten(flat, missing))

    def _fill_columns(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: dict[Any, Any]
    ) -> None:
        """Diagonals come along with the mass of all queries, where that is asked for too."""
        if not any(isinstance(s, Received | Offsets) for s in summaries):
            return
        offsets = Offsets() in summaries and Offsets() not in known
        for summary in sorted(
            (s for s in summaries if isinstance(s, Received)), key=lambda s: s.queries is not None
        ):
            self._mass(call, state, summary, known, offsets and summary.queries is None)
            offsets = offsets and Offsets() not in known
        if offsets:
            self._mass(call, state, Received(), known, offsets=True)

    def _answer(self, call: Call, state: RowState, summary: Summary, known: dict[Any, Any]) -> Any:
        graph = call.gradients
        if isinstance(summary, Received):
            mass, seen = self._mass(call, state, summary, known)
            return summary.finish(mass, seen, call.shape)
        if isinstance(summary, Offsets) and summary not in known:
            self._mass(_detached_call(call), state, Received(), known, offsets=True)
        if isinstance(summary, Peak):
            best = self._answer(call, state, Top(1), known)
            return TopKeys(best.weights.squeeze(-1), best.keys.squeeze(-1))
        value = _lookup(known, summary)
        if not graph or isinstance(summary, Visible):
            return value
        if isinstance(summary, Entropy):
            return known[_GRAPH] if _GRAPH in known else self._attach(call, state, value, None)
        if isinstance(summary, Top):
            return TopKeys(self._attach(call, state, value.weights, value.keys), value.keys)
        return ops.refuse(value, call.query, call.key, type(summary).__name__)

    def _attach(
        self, call: Call, state: RowState, value: Tensor, keys: Tensor | None, mass: bool = False
    ) -> Tensor:
        spec = self._spec(call).asking(mass=mass)
        return ops.attach(call.query, call.key, _arrays(call), list(state), value, keys, spec)

    def _mass(
        self,
        call: Call,
        state: RowState,
        summary: Received,
        known: dict[Any, Any],
        offsets: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Column mass and, where the summary divides by it, how many may see each key."""
        graph, seen = call.gradients, summary.per == "visible"
        name = ("mass", summary.queries)
        mass, count = known.get(name, (None, None))
        swept_anew = graph and summary.queries is not None  # no gradient is attached to these
        if mass is None or swept_anew or offsets or (seen and count is None):
            chosen = None
            if summary.queries is not None:
                rows = query_indices(summary.queries, call.shape.queries, call.query.device)
                chosen = torch.zeros(call.shape.queries, dtype=torch.bool, device=rows.device)
                chosen[rows] = True
            spec = self._spec(call).asking(seen=seen, offsets=offsets)
            mass, count, _, diagonals = ops.sweep_columns(
                call.query, call.key, _arrays(call), list(state), chosen, None, spec
            )
            if offsets:
                known[Offsets()] = diagonals
            known[name] = (mass.detach(), count if seen else None)
        elif graph:
            mass = self._attach(call, state, mass, None, mass=True)
        return mass, count if seen else None

    def block(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores of some heads."""
        spec = self._spec(call).asking(what=what)
        return ops.sweep_cells(call.query, call.key, _arrays(call), list(state), list(place), spec)

    def apply(self, call: Call, state: RowState, x: Tensor) -> Tensor:
        """A @ x for x (*batch, Hq, S, M): the forward over other values."""
        group, exact = call.shape.group, call.exact
        key = call.key if group == 1 else call.key.repeat_interleave(group, -3)
        spec = self._spec(call).asking(output=True)
        query = call.query.to(exact)  # values and weights meet in full precision
        return ops.sweep_rows(query, key.to(exact), x, _arrays(call), list(state), [], None, spec)[
            0
        ]

    def apply_transposed(self, call: Call, state: RowState, y: Tensor) -> Tensor:
        """Aᵀ @ y for y (*batch, Hq, L, M)."""
        spec = self._spec(call).asking()
        return ops.sweep_columns(call.query, call.key, _arrays(call), list(state), None, y, spec)[2]

    def _spec(self, call: Call) -> Spec:
        rules = Spec.of(call.mask, call.score)
        return Spec(rules.mask, rules.score, self._said, place=call.place)


_GRAPH = "entropy with its graph"
_BROUGHT = "what a backward brings"


def _arrays(call: Call) -> list[Tensor]:
    mask = [] if call.mask is None else list(call.mask.arrays())
    return [*mask, *call.score.arrays()]


def _all_tensors(call: Call) -> list[Tensor]:
    return [call.query, call.key, call.value, *_arrays(call)]


def _detached_call(call: Call) -> Call:
    return call.map(lambda tensor: tensor.detach())


def _measures(summaries: tuple[Summary, ...]) -> tuple[Summary, ...]:
    """Remembered, where no tensor is in them that would be kept alive."""
    fleeting = torch.compiler.is_compiling() or Matching in map(type, summaries)
    return (_needed if fleeting else _remembered_needed)(summaries)


def _needed(summaries: tuple[Summary, ...]) -> tuple[Summary, ...]:
    """What the row sweep has to bring for these: one top-k, the largest, serves all. Where there
    are maps, columns of all queries are asked together with them: one sweep may bring both."""
    wanted: dict[Summary, None] = {}
    k = 0
    for summary in summaries:
        if isinstance(summary, Top):
            k = max(k, summary.k)
        elif isinstance(summary, Peak):
            k = max(k, 1)
        elif not isinstance(summary, Received | Offsets):
            wanted[summary] = None
    top = (Top(k),) if k else ()
    maps = any(isinstance(summary, Pooled) for summary in wanted)
    return (*wanted, *top, *(_all_queries(summaries) if maps else ()))


_remembered_needed = lru_cache(maxsize=1024)(_needed)


def _all_queries(summaries: tuple[Summary, ...]) -> tuple[Summary, ...]:
    """The columns among them that are sums over all queries, as one sweep brings them."""
    masses = [s for s in summaries if isinstance(s, Received) and s.queries is None]
    offsets = (Offsets(),) if Offsets() in summaries else ()
    if not masses and not offsets:
        return ()
    per: Literal["visible", "sum"] = "visible" if any(s.per == "visible" for s in masses) else "sum"
    return (Received(per=per), *offsets)


def _lookup(known: dict[Any, Any], summary: Summary) -> Any:
    """A known value, also where it is part of a larger one."""
    if isinstance(summary, Received):
        mass, count = known.get(("mass", summary.queries), (None, None))
        return None if summary.per == "visible" and count is None else mass
    if isinstance(summary, Peak):
        return _lookup(known, Top(1))
    if summary in known or not isinstance(summary, Top):
        return known.get(summary)
    for other, value in known.items():
        if isinstance(other, Top) and other.k >= summary.k:
            return TopKeys(value.weights[..., : summary.k], value.keys[..., : summary.k])
    return None


def _look_for_mass(known: dict[Any, Any]) -> None:
    """A mass that a backward has brought is known; one that was swept for before stays."""
    brought: Brought | None = known.get(_BROUGHT)
    if brought is not None and brought.mass is not None:
        known.setdefault(("mass", None), (brought.mass, None))


def _unflatten(flat: list[Tensor], measures: tuple[Summary, ...]) -> dict[Any, Any]:
    parts = iter(flat)
    found: dict[Any, Any] = {}
    for m in measures:
        if isinstance(m, Top):
            found[m] = TopKeys(next(parts), next(parts))
            found["scores", m] = next(parts)
        elif isinstance(m, Received):
            found["mass", None] = next(parts), next(parts) if m.per == "visible" else None
        else:
            found[m] = next(parts)
    return found
