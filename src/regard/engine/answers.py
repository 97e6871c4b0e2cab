"""Answers made of sweeps: which ones a question needs, and nothing swept twice.

    row sweep      statistics of rows, top keys, maps
    column sweep   received, offsets, statistics of keys; asked together with rows, of which sweeps
                   may make one
    backward       received by all queries, where asked for there

What a sweep brought is kept (detached) with the attention it belongs to. A question with a
gradient gets its graph when it is asked, around the known value.

Where torch neither records, traces nor transforms, the sweeps are called as they are; elsewhere
through torch's operators, and then the question travels as text.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.engine import ops
from regard.engine.backend import MASS, ColumnAnswers, Sweeps, rows_and_columns
from regard.engine.call import (
    Answers,
    Brought,
    Call,
    Known,
    Place,
    Problem,
    RowState,
    What,
    map_parts,
    parts_of,
)
from regard.engine.codec import Spec, marks_of, measure_text
from regard.engine.plan import sweeps_for
from regard.engine.torch_state import capturing, unwatched
from regard.errors import GradientError, UnavailableError
from regard.summary import (
    ColumnSums,
    Entropy,
    Mass,
    Measured,
    Received,
    RowStatistic,
    Summary,
    TopKeys,
)
from regard.summary.base import fewest, summed_by_columns
from regard.summary.columns import part_of, query_indices


class Swept:
    """An implementation made of the four sweeps."""

    def __init__(self, sweeps: Sweeps | None, asked: str | None = None) -> None:
        self.sweeps = sweeps  # None: chosen when a sweep runs
        self.name = asked or "" if sweeps is None else sweeps.name
        self._checked = not asked  # one that was asked for by name while tracing is not

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
        if not call.dropout and self._is_plain(call):
            return self.attend_now(call, everything)
        measures, in_graph = _measures(everything)[0], Entropy() in summaries
        known = Known(brought=Brought() if in_backward and unwatched(()) else None)
        options = {"output": True, "dropout": call.dropout, "aside": not in_graph}
        with nullcontext() if known.brought is None else ops.bringing(known.brought):
            output, lse, state, values = self._through_operator(
                call, measures, None, mass=known.brought is not None, **options
            )
        known.values = {m: map_parts(value, Tensor.detach) for m, value in values.items()}
        if in_graph:
            known.entropy = cast(Tensor, values[Entropy()])  # one backward with the output
        self._fill_columns(_detached(call), state, everything, known)
        return Answers(output, lse, known, state)

    def alone(self, call: Call) -> None:
        """By `attend`."""

    def attend_now(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """The same where torch neither records nor traces: no operator, no text."""
        measures, left_over = _measures(summaries)[:2] if summaries else ((), False)
        sweeps = self._sweeps(call) if self.sweeps is None else self.sweeps
        found = rows_and_columns(sweeps, call, True, measures, None)
        output, state = cast(Tensor, found.output), found.state
        known = Known(found.measured)
        if left_over:
            self._fill_columns(call, state, summaries, known)
        dtype = call.query.dtype
        output = output if output.dtype == dtype else output.to(dtype)
        return Answers(output, state.peak + state.log, known, state)

    def state(
        self, call: Call, along: tuple[Summary, ...] = (), known: Known | None = None
    ) -> RowState:
        """The row state, where nobody has it yet. Statistics of rows that are wanted next come
        with the same sweep, and are known afterwards."""
        rows: tuple[Summary, ...] = ()
        if along and known is not None:
            unknown = tuple([s for s in along if s.answer(known.values, call.shape) is None])
            needed = _measures(unknown)
            rows = tuple([m for m in needed.measures if m not in needed.columns])
        state, values = self._rows(_detached(call), rows, None)
        if known is not None:
            known.values.update(values)
        return state

    def lse(self, call: Call, state: RowState | None = None) -> Tensor:
        """By a row sweep that autograd sees; a known one as it is."""
        with torch.enable_grad():
            if state is not None:
                return self._attach(call, state, state.lse, what="scores")
            return self._through_operator(call.with_value(call.value[..., :0]), (), None)[1]

    # ── sweeps ───────────────────────────────────────────────────────────────────────────────

    def _is_plain(self, call: Call, *more: Tensor) -> bool:
        """Whether the sweeps may be called as they are."""
        return unwatched((call.query, call.key, call.value, *call.arrays, *more))

    def _sweeps(self, call: Call) -> Sweeps:
        return sweeps_for(call, self.name, self._checked) if self.sweeps is None else self.sweeps

    def _rows(
        self, call: Call, measures: tuple[Summary, ...], given: RowState | None
    ) -> tuple[RowState, dict[Summary, Measured]]:
        """A row sweep without an output."""
        call = call.with_value(call.value[..., :0])
        if self._is_plain(call, *(given or ())):
            found = rows_and_columns(self._sweeps(call), call, False, measures, given)
            return found.state, found.measured
        _, _, state, values = self._through_operator(call, measures, given)
        return state, values

    def _through_operator(
        self, call: Call, measures: tuple[Summary, ...], given: RowState | None, **question: Any
    ) -> tuple[Tensor, Tensor, RowState, dict[Summary, Measured]]:
        """Output, lse, state and what was measured, with what torch's operator attaches to them."""
        call = call.read()
        spec = self._spec(call).asking(asked=measure_text(measures), **question)
        seed = torch.randint(2**31, ()) if question.get("dropout") else None
        output, peak, log, lse, *flat = ops.rows(
            call.query, call.key, call.value, list(call.arrays), list(given or ()),
            marks_of(measures), seed, spec,
        )  # fmt: skip
        _hold(call, output, lse)
        parts, values = iter(flat), {}
        for m in measures:
            values[m] = m.packed([next(parts) for _ in m.tensors(call.shape)])
        return output, lse, RowState(peak.detach(), log.detach()), values

    def _columns(
        self,
        call: Call,
        state: RowState,
        chosen: Tensor | None = None,
        y: Tensor | None = None,
        asked: ColumnSums = MASS,
    ) -> ColumnAnswers:
        more = [t for t in (*state, chosen, y, asked.by) if t is not None]
        if self._is_plain(call, *more):
            return self._sweeps(call).columns(call, state, chosen, y, asked)
        call = call.read()
        spec = self._spec(call).asking(
            seen=asked.seen, offsets=asked.offsets, largest=asked.largest
        )
        mass, count, product, diagonals, largest = ops.columns(
            call.query, call.key, list(call.arrays), list(state), chosen, y, spec, asked.by
        )
        _hold(call, mass, product)
        return ColumnAnswers(
            mass, count if asked.seen else None, product, diagonals if asked.offsets else None,
            largest if asked.largest else None,
        )  # fmt: skip

    # ── questions ────────────────────────────────────────────────────────────────────────────

    def measure(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
    ) -> dict[Summary, Any]:
        """The summaries: known ones as they are, the rest in one sweep of each kind. Columns with
        a gradient are swept when they are answered, where they are not known."""
        if known.brought is not None and known.brought.mass is not None:
            known.values.setdefault(Received(), Mass(known.brought.mass))
        if not call.gradients:
            self._fill(call, state, summaries, known)
            self._fill_columns(call, state, summaries, known)
            return {summary: summary.answer(known.values, call.shape) for summary in summaries}
        alone = tuple(s for s in summaries if s.gradient != "mass")
        self._fill(_detached(call), state, alone, known)
        return {summary: self._answer(call, state, summary, known) for summary in summaries}

    def _fill(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
    ) -> None:
        """Columns come along with rows, and are left to `_fill_columns` where they are alone."""
        missing = tuple([s for s in summaries if s.answer(known.values, call.shape) is None])
        if missing and (needed := _measures(missing)).rows:
            known.values.update(self._rows(call, needed.measures, state)[1])

    def _fill_columns(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
    ) -> None:
        """One sweep for each choice of queries, and for each weighting of them."""
        alike: dict[Any, dict[Summary, ColumnSums]] = {}
        for summary, sums in _measures(summaries).columns.items():
            if summary.answer(known.values, call.shape) is None:
                apart = sums.queries if sums.by is None else summary
                alike.setdefault(apart, {})[summary] = sums
        for columns in alike.values():
            self._sweep_columns(call, state, columns, known)

    def _answer(self, call: Call, state: RowState, summary: Summary, known: Known) -> Any:
        sums = summary.source().column_sums()
        if sums is not None and summary.gradient == "mass":
            return self._mass_with_graph(call, state, summary, sums, known)
        if sums is not None:
            self._fill_columns(_detached(call), state, (summary,), known)
        value = summary.answer(known.values, call.shape)
        if summary.gradient == "constant":
            return value
        if summary.gradient == "entropy":
            attached = known.entropy
            return self._attach(call, state, value) if attached is None else attached
        if summary.gradient == "weights":
            keys = value.keys if value.keys.ndim > state.peak.ndim else value.keys.unsqueeze(-1)
            weights = self._attach(call, state, value.weights.reshape(keys.shape), keys)
            return TopKeys(weights.reshape(value.weights.shape), value.keys)
        if summary.gradient == "declared" and isinstance(summary, RowStatistic):
            return self._attach_declared(call, state, summary, value)
        return ops.refuse(value, call.query, call.key, summary.called)

    def _attach(
        self, call: Call, state: RowState, value: Tensor, keys: Tensor | None = None, **said: Any
    ) -> Tensor:
        spec = self._spec(call).asking(**said)
        return ops.attach(call.query, call.key, list(call.arrays), list(state), value, keys, spec)

    def _attach_declared(
        self, call: Call, state: RowState, summary: RowStatistic, value: Tensor
    ) -> Tensor:
        name = type(summary).__name__
        if call.score.sink is not None and summary.counts_sink:
            raise GradientError(f"{name} has no gradient beside a sink; detach it, or use 'dense'")
        if marks_of([summary]):
            raise GradientError(
                f"{name} holds arrays and has no gradient; detach it, or use 'dense'"
            )
        return self._attach(call, state, value, asked=measure_text([summary]))

    def _sweep_columns(
        self,
        call: Call,
        state: RowState,
        columns: dict[Summary, ColumnSums],
        known: Known,
    ) -> ColumnAnswers:
        """All that is summed over the same queries. The mass is there whatever was asked for."""
        first, *others = columns.values()  # whose queries are everybody's
        asked, chosen = ColumnSums.together([first, *others]) if others else first, None
        if first.queries is not None:
            chosen = _chosen(first.queries, call.shape.queries, call.query.device)
        if asked.by is not None:
            by = owned(asked.by).to(state.peak).expand(state.peak.shape)
            asked = asked._replace(by=by)
        found = self._columns(call, state, chosen, None, asked)
        for summary, sums in columns.items():
            known.values[summary] = summary.packed([part.detach() for part in found.of(sums)])
        if asked.offsets:
            known.values.setdefault(Received(), Mass(found.mass.detach()))
        return found

    def _mass_with_graph(
        self, call: Call, state: RowState, summary: Summary, sums: ColumnSums, known: Known
    ) -> Any:
        """Around a known mass of all queries, or by a sweep that autograd sees."""
        source = summary.source()
        of_all = sums.queries is None and sums.by is None
        value = source.answer(known.values, call.shape) if of_all else None
        mass = None if value is None else Received().answer(known.values, call.shape)
        if mass is None:
            found = self._sweep_columns(call, state, {source: sums}, known)
        else:
            seen = parts_of(known.values[source])[1] if sums.seen else None
            found = ColumnAnswers(self._attach(call, state, mass, mass=True), seen, None)
        return summary.answer({source: source.packed(found.of(sums))}, call.shape)

    def block(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores of some heads."""
        if self._is_plain(call, *state, *place):
            return self._sweeps(call).cells(call, state, place, what)
        call = call.read()
        spec = self._spec(call).asking(what=what)
        return ops.cells(call.query, call.key, list(call.arrays), list(state), list(place), spec)

    def apply(self, call: Call, state: RowState, x: Tensor) -> Tensor:
        """A @ x for x (*batch, Hq, S, M): the forward over other values."""
        call = call.read()
        group, exact = call.shape.group, call.exact
        key = call.key if group == 1 else call.key.repeat_interleave(group, -3)
        spec = self._spec(call).asking(output=True)
        query = call.query.to(exact)  # values and weights meet in full precision
        return ops.rows(query, key.to(exact), x, list(call.arrays), list(state), [], None, spec)[0]

    def apply_transposed(self, call: Call, state: RowState, y: Tensor) -> Tensor:
        """Aᵀ @ y for y (*batch, Hq, L, M)."""
        return cast(Tensor, self._columns(call, state, y=y).product)

    def _spec(self, call: Call) -> Spec:
        rules = Spec.of(call.mask, call.score)
        return Spec(
            rules.mask,
            rules.score,
            self.name,
            self._checked,
            place=call.place,
            learns=call.bias_learns(),
        )


def owned(given: Any) -> Tensor:
    """A tensor as it is; of anything else a copy, since its changes are not noticed."""
    return given if isinstance(given, Tensor) else torch.tensor(given)


def _hold(call: Call, *made: Tensor | None) -> None:
    """The graph behind a tensor has a text of the call's rules, in which functions are numbers:
    as long as it can be asked for gradients, the functions stay."""
    if torch.compiler.is_compiling():
        return
    for tensor in made:
        if tensor is not None and tensor.grad_fn is not None:
            kept: Any = (
                tensor.grad_fn.metadata
            )  # a dictionary, which torch's types take for a method
            kept["regard rules"] = (call.mask, call.score.bias)


def _detached(call: Call) -> Call:
    """Without what autograd follows; the call itself where it follows nothing."""
    plain = torch.compiler.is_compiling() or any(t.requires_grad for t in call.tensors())
    return call.map(lambda tensor: tensor.detach()) if plain else call


def _chosen(queries: Any, count: int, device: torch.device) -> Tensor:
    """(L,) booleans: which of the queries count. Remembered on the CPU, where nothing is traced."""
    if device.type == "cpu" and not torch.compiler.is_compiling() and unwatched(()):
        return _remembered_chosen(queries, count)
    return _flags(queries, count, device)


def _flags(queries: Any, count: int, device: torch.device) -> Tensor:
    chosen = torch.zeros(count, dtype=torch.bool, device=device)
    part = part_of(queries)
    if part is not None:  # filled where it lies: nothing is copied from the host
        chosen[part] = True
        return chosen
    if capturing(device):
        raise UnavailableError(
            "queries given as indices come from the host, which a CUDA graph cannot capture; give "
            "a slice, or a number n for the last n queries"
        )
    return chosen.index_fill(0, query_indices(queries, count, device), True)


@lru_cache(maxsize=64)
def _remembered_chosen(queries: Any, count: int) -> Tensor:
    with torch.inference_mode(False):  # a graph of later calls may save it
        return _flags(queries, count, torch.device("cpu"))


class _Needed(NamedTuple):
    """What the row operator has to bring for some summaries."""

    measures: tuple[Summary, ...]
    left_over: bool  # whether a column sweep has to follow
    rows: bool  # whether any of them is of rows
    columns: dict[Summary, ColumnSums]  # those among them that column sweeps bring


def _measures(summaries: tuple[Summary, ...]) -> _Needed:
    """Remembered, where no tensor is in them that would be kept alive."""
    if torch.compiler.is_compiling():
        return _needed(summaries)
    for summary in summaries:
        if not summary.is_flat:
            return _needed(summaries)
    return _remembered_needed(summaries)


def _needed(summaries: tuple[Summary, ...]) -> _Needed:
    """Columns of all queries are asked together with the rows: one sweep may bring both."""
    asked = fewest(summaries)
    columns = summed_by_columns(asked)
    rows = tuple(s for s in asked if s not in columns)
    along: list[Summary] = [
        s for s, sums in columns.items() if sums.queries is None and sums.by is None
    ]
    if any(columns[s].offsets for s in along):
        along = fewest([*along, Received()])  # it is there anyway
    together = (*rows, *along)
    return _Needed(together, any(s not in together for s in asked), len(rows) > 0, columns)


_remembered_needed = lru_cache(maxsize=1024)(_needed)
