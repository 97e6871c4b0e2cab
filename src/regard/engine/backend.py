"""The four sweeps everything is made of, and what each brings back.

    rows       every query walks its keys: output, lse, row statistics, top keys, pooled maps
    columns    every key walks its queries, lse known: received mass and its largest, diagonals,
               Aᵀ @ y
    cells      a rectangle of weights or scores
    backward   weights computed again, carried on to gradients

A backend supplies these; `answers.py` turns them into answers with gradients.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple, Protocol, cast, runtime_checkable

from torch import Tensor

from regard.engine.call import Call, Place, Problem, RowState, What
from regard.engine.plan import sweeps_called
from regard.summary import ColumnSums, Measured, Summary
from regard.summary.base import summed_by_columns

MASS = ColumnSums()  # of all queries, and nothing else


class RowAnswers(NamedTuple):
    """Of a row sweep."""

    output: Tensor | None  # (*batch, Hq, L, Dv), in the precision computed in
    state: RowState
    measured: dict[Summary, Measured]


class ColumnAnswers(NamedTuple):
    """Of a column sweep."""

    mass: Tensor  # (*batch, Hq, S); empty where a sweep left it out
    seen: Tensor | None  # (*batch, Hq, S): how many of the queries may see each key
    product: Tensor | None  # (*batch, Hq, S, M)
    offsets: Tensor | None = None  # (*batch, Hq, L + S − 1): sums of diagonals
    largest: Tensor | None = None  # (*batch, Hq, S): the largest weight of each key

    def of(self, sums: ColumnSums) -> list[Tensor]:
        """What one statistic asked for."""
        if sums.offsets:
            asked: tuple[Tensor | None, ...] = (self.offsets,)
        else:
            column = self.largest if sums.largest else self.mass
            asked = column, self.seen if sums.seen else None
        return [part for part in asked if part is not None]


class Gradients(NamedTuple):
    """Of a backward sweep."""

    query: Tensor
    key: Tensor
    value: Tensor
    rule: list[Tensor | None]  # for the arrays of the bias and, last, the sink
    mass: Tensor | None = None  # (*batch, Hq, S), where asked for: what each key received


class Sweeps(Protocol):
    """What an implementation supplies."""

    name: str

    def unavailable(self) -> list[str]:
        """Why it cannot run on this machine at all; empty where it can."""
        ...

    def reasons(self, problem: Problem) -> list[str]:
        """Why it cannot serve this problem; empty where it can."""
        ...

    def knows(self, summary: Summary) -> bool:
        """Whether its sweeps bring this statistic."""
        ...

    def rows(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None = None,
    ) -> RowAnswers:
        """One pass over the keys for every query. Weights are relative to the `given` lse where
        there is one (of a larger set of keys, or of another kernel); entropy never is."""
        ...

    def columns(
        self,
        call: Call,
        state: RowState,
        chosen: Tensor | None,
        y: Tensor | None,
        asked: ColumnSums = MASS,
    ) -> ColumnAnswers:
        """Sums over the chosen queries (booleans (L,); None: all), whatever `asked.queries` are."""
        ...

    def cells(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols)."""
        ...

    def backward(
        self,
        call: Call,
        state: RowState,
        grad_output: Tensor,
        shift: Tensor,
        slope: Tensor | None,
        mass: bool = False,
    ) -> Gradients:
        """dS = p (dP − shift − slope (s − lse)), carried on to q, k, v and the rule's arrays. The
        weights are there anyway: their sums over all queries, before dropout, come along."""
        ...


@runtime_checkable
class RowsWithColumns(Protocol):
    """What an implementation may supply besides: the whole question at once, where maps or column
    sums come cheaper together, or with the rows, than each in a sweep of its own."""

    def rows_with_columns(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        asked: ColumnSums,
        given: RowState | None,
    ) -> tuple[RowAnswers, ColumnAnswers]:
        """What `rows` brings, and sums over all queries."""
        ...


@runtime_checkable
class RoundedBackward(Protocol):
    """What an implementation may supply besides: the backward of a whole attention, which need not
    leave anything in more precision than it came in."""

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
        """`backward` with Σ grad_output · output added to the shift of every row; gradients have
        the dtype of what they are gradients of."""
        ...


class PairSide(NamedTuple):
    """One of two attentions over the same keys, and the heads of it that are compared. The
    logarithm of a pair's distribution is log Σ_h p_h − z."""

    call: Call
    state: RowState
    heads: Tensor  # (pairs, heads of each) int32
    z: Tensor  # (B, pairs, L)


class PairSums(NamedTuple):
    """(B, pairs, L) each, over the keys."""

    value: Tensor
    gains: Tensor  # what the value gains by the student's logarithms, added up
    query: Tensor  # (B, pairs, L, D): what it gains by the student's q; D is 0 where nobody asks


@runtime_checkable
class Pairs(Protocol):
    """What an implementation may supply besides: two attentions in one sweep."""

    def pair_reasons(self, how: str, teacher: PairSide, student: PairSide) -> list[str]:
        """Why it cannot serve these; empty where it can."""
        ...

    def pair_sums(
        self, how: str, teacher: PairSide, student: PairSide, extra: Tensor, learns: bool
    ) -> PairSums:
        """The divergence of each row over its keys; `extra` (B, pairs, L) are gains by a sink."""
        ...

    def pair_key_gradient(
        self, how: str, teacher: PairSide, student: PairSide, grad: Tensor, gains: Tensor
    ) -> Tensor:
        """(B, pairs, S, D): the gradient of the student's k."""
        ...


def rows_and_columns(
    sweeps: Sweeps,
    call: Call,
    output: bool,
    measures: tuple[Summary, ...],
    given: RowState | None,
) -> RowAnswers:
    """Rows and columns, together where these sweeps can. Statistics that they do not list are
    brought by `tiled`."""
    if not measures:
        return sweeps.rows(call, output, (), given)
    native, columns, foreign = _split(sweeps, measures)
    if not columns:
        found = sweeps.rows(call, output, native, given)
    else:
        asked = ColumnSums.together(columns.values())
        if _is_together(type(sweeps)):
            both = cast(RowsWithColumns, sweeps)
            found, summed = both.rows_with_columns(call, output, native, asked, given)
        else:
            found = sweeps.rows(call, output, native, given)
            summed = sweeps.columns(call, given or found.state, None, None, asked)
        found.measured.update({m: m.packed(summed.of(sums)) for m, sums in columns.items()})
    if foreign:
        matrix, state = call.with_value(call.value[..., :0]), given or found.state
        found.measured.update(sweeps_called("tiled").rows(matrix, False, foreign, state).measured)
    return found


class _Split(NamedTuple):
    """Measures by the sweep that brings them."""

    native: tuple[Summary, ...]  # with the rows
    columns: dict[Summary, ColumnSums]  # over all queries
    foreign: tuple[Summary, ...]  # by tiles


def _split(sweeps: Sweeps, measures: tuple[Summary, ...]) -> _Split:
    """Remembered, where no tensor is in the measures that would be kept alive."""
    for measure in measures:
        if not measure.is_flat:
            return _split_anew(sweeps, measures)
    return _split_once(sweeps, measures)  # type: ignore[arg-type]


def _split_anew(sweeps: Sweeps, measures: tuple[Summary, ...]) -> _Split:
    columns = summed_by_columns(measures)
    others = [m for m in measures if m not in columns]
    native = tuple(m for m in others if sweeps.knows(m))
    return _Split(native, columns, tuple(m for m in others if m not in native))


_split_once = lru_cache(maxsize=1024)(_split_anew)


@cache
def _is_together(kind: type[Sweeps]) -> bool:
    """Asked once: Python takes long to compare a class with a protocol."""
    return issubclass(kind, RowsWithColumns)


@cache
def is_rounded(kind: type[Sweeps]) -> bool:
    """Whether it has a backward of its own for a whole attention."""
    return issubclass(kind, RoundedBackward)
