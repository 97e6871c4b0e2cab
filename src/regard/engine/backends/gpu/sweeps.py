"""The four sweeps on Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor

from regard.engine.backend import MASS, ColumnAnswers, Gradients, PairSide, PairSums, RowAnswers
from regard.engine.backends.gpu.again import repeated
from regard.engine.backends.gpu.bind import Bound, bind, reads_bias
from regard.engine.backends.gpu.launch import interpreting, room, too_old
from regard.engine.backends.gpu.seen import normal_form
from regard.engine.call import NO_DOT, Call, Place, Problem, RowState, What
from regard.summary import (
    ColumnSums,
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Measured,
    Offsets,
    Pooled,
    Received,
    Summary,
    Top,
    TopScored,
    Visible,
)

if TYPE_CHECKING:
    from regard.engine.backends.gpu.few import ScoreReader
    from regard.engine.backends.gpu.forward import Found
    from regard.engine.backends.gpu.prune import Pruner
    from regard.engine.backends.gpu.top import Best

_LARGEST_DIM = 256
_OLDEST = (8, 0)  # compute capability
_MOST_UNITS = 65535  # CUDA's limit on a grid's second axis, where batch entries × heads stand

# statistics that are one number a row, by the forward kernel's name
_ROW_NUMBERS: dict[type[Summary], str] = {
    Entropy: "entropy",
    MaxScore: "raw",
    MaxLogit: "logit",
    Concentration: "squares",
    Distance: "away",
    Visible: "visible",
}


_KNOWN = {*_ROW_NUMBERS, Matching, Offsets, Pooled, Received, Top}

_Sweep = TypeVar("_Sweep", bound=Callable[..., Any])


def _there(sweep: _Sweep) -> _Sweep:
    """On the GPU that holds the tensors: Triton launches on the current one, whichever it is."""

    @wraps(sweep)
    def run(self: Any, call: Call, *args: Any, **options: Any) -> Any:
        with _on_its_gpu(call):
            return sweep(self, call, *args, **options)

    return cast(_Sweep, run)


def _on_its_gpu(call: Call) -> AbstractContextManager[object]:
    number = call.query.get_device()
    is_there = number < 0 or number == torch.cuda.current_device()
    return nullcontext() if is_there else torch.cuda.device(number)


class TritonSweeps:
    """Attention on NVIDIA GPUs, with everything measured on the way."""

    name = "triton"

    def unavailable(self) -> list[str]:
        """Why the kernels cannot run here."""
        if find_spec("triton") is None:
            return ["Triton is not installed: pip install 'regard[gpu]'"]
        if not interpreting() and not torch.cuda.is_available():
            return ["there is no CUDA GPU here (TRITON_INTERPRET=1 runs the kernels on the CPU)"]
        if lack := too_old():
            return [lack]
        if interpreting():
            return []
        found = torch.cuda.get_device_capability()
        if found < _OLDEST:
            return [f"the GPU's compute capability is {found[0]}.{found[1]}; it needs 8.0"]
        return []

    def reasons(self, problem: Problem) -> list[str]:
        """What the kernels do not do."""
        shape, home = problem.shape, "cpu" if interpreting() else "cuda"
        hidden = normal_form(problem.mask, shape.extent, problem.device).why_not
        need = room(shape.dim, problem.dtype)
        there = _shared_memory() if home == "cuda" else None
        units = prod(shape.batch) * shape.query_heads
        limits = {
            f"the tensors are on {problem.device}, these kernels run on {home}": (
                problem.device != home
            ),
            f"head dim {shape.dim} is above {_LARGEST_DIM}": shape.dim > _LARGEST_DIM,
            f"head dim {shape.dim} takes {need} KiB of shared memory, this GPU has {there}": (
                there is not None and there < need
            ),
            f"batch × heads is {units}, CUDA takes {_MOST_UNITS}": units > _MOST_UNITS,
            NO_DOT: not problem.dot,
            "it has no dropout": problem.dropout,
            "its backward gives no gradient to a bias": problem.bias_gradient,
            f"of biases it does not know {problem.bias!r}": not reads_bias(problem.bias),
            hidden: hidden != "",
        }
        return [said for said, so in limits.items() if so]

    def knows(self, summary: Summary) -> bool:
        return type(summary) in _KNOWN

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    @_there
    def rows(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None = None,
    ) -> RowAnswers:
        """One forward sweep, and a replay for each question that needs every row's lse; of few
        queries, the scores that this sweep leaves answer most of them."""
        others, marks = _apart(measures)
        found = self._row_sweep(call, output, others, given)
        return _with_marks(call, found, given, marks)

    @repeated
    def _row_sweep(
        self, call: Call, output: bool, measures: tuple[Summary, ...], given: RowState | None
    ) -> RowAnswers:
        bound = bind(call)
        reader = _reader(bound, call, measures, False)
        return self._swept(bound, call, output, measures, given, reader)

    def _swept(
        self,
        bound: Bound,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None,
        reader: ScoreReader | None,
    ) -> RowAnswers:
        from regard.engine.backends.gpu.decode import decode, decodes, look
        from regard.engine.backends.gpu.prune import Pruner, prunes

        names = {_ROW_NUMBERS[type(m)] for m in measures if type(m) in _ROW_NUMBERS}
        pruned = next((m for m in measures if type(m) is Top and prunes(bound, m.k)), None)
        pruner = None if pruned is None else Pruner(bound, pruned.k)
        made, numbers = None, {}
        if given is not None and not (output or names or pruner):
            lse, state = given, RowState(given.peak.clone(), given.log.clone())
            if reader is not None:
                look(bound, given, reader)
        else:
            if decodes(bound):
                found = decode(bound, output, names, given, reader)
            else:
                found = self._forward(bound, output, names, given, pruner)
            state = RowState(*(bound.batched(part) for part in found.state))
            made = None if found.output is None else bound.batched(found.output)
            lse, numbers = found.state if given is None else given, found.numbers
        measured: dict[Summary, Measured] = {
            m: bound.batched(_number(numbers[_ROW_NUMBERS[type(m)]]))
            for m in measures
            if type(m) in _ROW_NUMBERS
        }
        if reader is not None:
            measured |= {m: bound.batched(cells) for m, cells in reader.maps.items()}
            measured |= {m: _scored(bound, best) for m, best in reader.tops.items()}
        for m in measures:
            if m not in measured:
                best = pruner if m is pruned else None
                measured |= self._replayed(bound, call, lse, m, best)
        return RowAnswers(made, state, measured)

    def _forward(
        self,
        bound: Bound,
        output: bool,
        names: set[str],
        given: RowState | None,
        pruner: Pruner | None,
    ) -> Found:
        """The sweep itself, where queries are not few."""
        from regard.engine.backends.gpu.forward import forward

        return forward(bound, output, names, given, pruner)

    def _replayed(
        self,
        bound: Bound,
        call: Call,
        state: RowState,
        measure: Summary,
        pruner: Pruner | None,
    ) -> dict[Summary, Measured]:
        """What one more sweep brings, by summary; the best keys may have come with the forward."""
        if isinstance(measure, Top):
            from regard.engine.backends.gpu.top import top

            best = top(bound, state, measure.k) if pruner is None else pruner.best
            return {measure: _scored(bound, best)}
        if isinstance(measure, Pooled):
            from regard.engine.backends.gpu.replay import cell_map

            return {measure: bound.batched(cell_map(bound, state, measure, call.shape))}
        return {}

    # ── columns ──────────────────────────────────────────────────────────────────────────────

    @_there
    @repeated
    def columns(
        self,
        call: Call,
        state: RowState,
        chosen: Tensor | None,
        y: Tensor | None,
        asked: ColumnSums = MASS,
    ) -> ColumnAnswers:
        """Sums over queries, with every row's lse known."""
        from regard.engine.backends.gpu.columns import columns
        from regard.engine.backends.gpu.diagonals import diagonals

        bound = bind(call)
        mass, count, product, largest = columns(bound, state, chosen, y, asked)
        return ColumnAnswers(
            bound.batched(mass),
            None if count is None else bound.batched(count.to(torch.int64)),
            None if product is None else bound.batched(product),
            bound.batched(diagonals(bound, state, chosen)) if asked.offsets else None,
            None if largest is None else bound.batched(largest),
        )

    @_there
    def rows_with_columns(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        asked: ColumnSums,
        given: RowState | None,
    ) -> tuple[RowAnswers, ColumnAnswers]:
        """Maps come with the mass: in a sweep over the queries, or, where these are few, from the
        scores that the rows leave."""
        others, marks = _apart(measures)
        found, columns = self._row_and_column_sweep(call, output, others, asked, given)
        return _with_marks(call, found, given, marks), columns

    @repeated
    def _row_and_column_sweep(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        asked: ColumnSums,
        given: RowState | None,
    ) -> tuple[RowAnswers, ColumnAnswers]:
        from regard.engine.backends.gpu.columns import counts
        from regard.engine.backends.gpu.diagonals import diagonals

        bound = bind(call)
        reader = _reader(bound, call, measures, True, asked.largest)
        if reader is None:
            maps = tuple(m for m in measures if isinstance(m, Pooled))
            others = tuple(m for m in measures if m not in maps)
            found = self._swept(bound, call, output, others, given, None)
            state = given or found.state
            mass, largest, cells = _mass_with_maps(bound, state, maps, call, asked.largest)
            found.measured.update(cells)
        else:
            found = self._swept(bound, call, output, measures, given, reader)
            mass, largest = cast(Tensor, reader.mass), reader.largest
        return found, ColumnAnswers(
            bound.batched(mass),
            bound.batched(counts(bound, None).to(torch.int64)) if asked.seen else None,
            None,
            bound.batched(diagonals(bound, given or found.state, None)) if asked.offsets else None,
            None if largest is None else bound.batched(largest),
        )

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    @_there
    def cells(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores."""
        from regard.engine.backends.gpu.cells import cells

        return cells(bind(call), state, place, what)

    # ── backward ─────────────────────────────────────────────────────────────────────────────

    @_there
    @repeated
    def backward(
        self,
        call: Call,
        state: RowState,
        grad_output: Tensor,
        shift: Tensor,
        slope: Tensor | None,
        mass: bool = False,
    ) -> Gradients:
        """dS = p (dP − shift − slope (s − lse)), carried on to q, k and v."""
        return _gradients(call, state, grad_output, shift, slope, mass)

    @_there
    @repeated
    def rounded_backward(
        self,
        call: Call,
        state: RowState,
        grad_output: Tensor,
        output: Tensor,
        shift: Tensor,
        slope: Tensor | None,
        mass: bool = False,
    ) -> Gradients:
        """Nothing is in memory in more precision than it came in, and Σ grad_output · output is
        one kernel."""
        return _gradients(call, state, grad_output, shift, slope, mass, output)

    # ── pairs ────────────────────────────────────────────────────────────────────────────────

    def pair_reasons(self, how: str, teacher: PairSide, student: PairSide) -> list[str]:
        """What the kernels do not do."""
        from regard.engine.backends.gpu.pairs import pair_reasons

        return pair_reasons(how, teacher, student)

    def pair_sums(
        self, how: str, teacher: PairSide, student: PairSide, extra: Tensor, learns: bool
    ) -> PairSums:
        """One sweep over both, by query."""
        from regard.engine.backends.gpu.pairs import pair_sums

        with _on_its_gpu(student.call):
            return pair_sums(how, teacher, student, extra, learns)

    def pair_key_gradient(
        self, how: str, teacher: PairSide, student: PairSide, grad: Tensor, gains: Tensor
    ) -> Tensor:
        """One sweep over both, by key."""
        from regard.engine.backends.gpu.pairs import pair_key_gradient

        with _on_its_gpu(student.call):
            return pair_key_gradient(how, teacher, student, grad, gains)


def _gradients(
    call: Call,
    state: RowState,
    grad_output: Tensor,
    shift: Tensor,
    slope: Tensor | None,
    mass: bool,
    output: Tensor | None = None,
) -> Gradients:
    from regard.engine.backends.gpu.backward import backward

    bound = bind(call)
    *grads, received = backward(bound, state, grad_output, shift, slope, mass, output)
    query, key, value = (bound.batched(grad) for grad in grads)
    rule: list[Tensor | None] = [None] * len(list(call.score.arrays()))
    found = None if received is None else bound.batched(received)
    return Gradients(query, key, value, rule, found)


def _apart(measures: tuple[Summary, ...]) -> tuple[tuple[Summary, ...], list[Matching]]:
    """What depends on tensors of its own stands apart: the rest is the same for calls alike, and
    can be repeated."""
    marks = [m for m in measures if isinstance(m, Matching)]
    return tuple(m for m in measures if not isinstance(m, Matching)) if marks else measures, marks


def _with_marks(
    call: Call, found: RowAnswers, given: RowState | None, marks: list[Matching]
) -> RowAnswers:
    """With a sweep more for each of the marks."""
    if not marks:
        return found
    from regard.engine.backends.gpu.marks import matching

    bound = bind(call)
    state = found.state if given is None else given
    made = {m: bound.batched(matching(bound, state, m)) for m in marks}
    return found._replace(measured=found.measured | made)


def _reader(
    bound: Bound, call: Call, measures: tuple[Summary, ...], mass: bool, largest: bool = False
) -> ScoreReader | None:
    """Of the scores of few queries, for what they tell of all that is asked; None where they are
    many, or nothing is."""
    from regard.engine.backends.gpu.decode import decodes
    from regard.engine.backends.gpu.few import MOST_PLACES, ScoreReader

    maps = {m: m.size(call.shape) for m in measures if isinstance(m, Pooled)}
    tops = tuple(m for m in measures if isinstance(m, Top) and m.k <= MOST_PLACES)
    if not decodes(bound) or not (mass or maps or tops):
        return None
    return ScoreReader(bound, mass, None, maps, tops, largest)


def _mass_with_maps(
    bound: Bound, state: RowState, maps: tuple[Pooled, ...], call: Call, largest: bool
) -> tuple[Tensor, Tensor | None, dict[Summary, Measured]]:
    """The first map that fits comes with the mass; any other has a sweep of its own."""
    from regard.engine.backends.gpu.replay import cell_map, fits, replay

    joined = next((m for m in maps if fits(bound, m.size(call.shape))), None)
    along = None if joined is None else (joined, joined.size(call.shape))
    mass, most, cells = replay(bound, state, pooled=along, largest=largest)
    assert mass is not None
    found = {m: cell_map(bound, state, m, call.shape) for m in maps if m != joined}
    if joined is not None and cells is not None:
        found[joined] = cells
    return mass, most, {m: bound.batched(made) for m, made in found.items()}


def _scored(bound: Bound, best: Best) -> TopScored:
    weights, scores, keys = (bound.batched(part) for part in best)
    return TopScored(weights, keys, scores)


def _shared_memory() -> int | None:
    """KiB that a block may have on this GPU; None where there is none, or torch does not say."""
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = getattr(properties, "shared_memory_per_block_optin", None)
    return None if found is None else found // 1024


def _number(found: Tensor) -> Tensor:
    """Counts are small in the kernels and int64 outside."""
    return found if found.is_floating_point() else found.to(torch.int64)


TRITON = TritonSweeps()
