"""The distance between two attentions over the same keys, a strip of rows at a time.

A strip holds the final scores of a few whole rows of both sides, as their own backends compute
them, so memory grows with the number of keys. `regard.divergences` says what is made of them: the
value, and in the backward, over the same strips, what it gains by every score, which is carried on
to q, k, biases and sinks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.declare import functions_in
from regard.divergences import (
    DivergenceOptions,
    How,
    Pairing,
    head_slopes,
    mixed,
    row_divergence,
    student_slopes,
    teacher_slopes,
)
from regard.engine.call import Call, Place, RowState
from regard.engine.codec import Spec
from regard.engine.gradients import ScoreGradients
from regard.engine.operator import operator
from regard.engine.ops import refuse_second
from regard.engine.pairs import Native, natively
from regard.engine.plan import MEASURING, sweeps_for
from regard.engine.torch_state import unwatched
from regard.errors import DeviceError, InputError, ShapeError
from regard.mask import Verdict

if TYPE_CHECKING:
    from regard.engine.attention import Attention

_CELLS = 2**22  # of both sides, in one strip
_ROWS = 128  # of a strip, at most
_KEYS = 512  # masks are asked about so many at a time


def diverge(teacher: Attention, student: Attention, asked: DivergenceOptions) -> Tensor:
    """(…, G, n): see `regard.divergence`."""
    a, b = teacher._counting(), student._counting()
    for side in (a, b):
        side._fresh()
    calls = a._call, b._call
    _check(teacher, student)
    pairing = asked.pairing(*(call.shape.query_heads for call in calls))
    count = calls[0].shape.queries
    chosen = asked.rows(count)
    rows = (
        torch.arange(chosen.start, chosen.stop, chosen.step)
        if isinstance(chosen, range)
        else torch.tensor(chosen, dtype=torch.int64)
    )
    sides = Side(calls[0], a._rows(), _sweeps(a)), Side(calls[1], b._rows(), _sweeps(b))
    question = Question(asked.how, pairing)
    tensors = [t for side in sides for t in (side.call.query, side.call.key, *side.call.arrays)]
    run = _sums if unwatched(tensors) else _with_graph
    found = run(sides, rows, question)[0]
    headless = student._headless and teacher._headless
    return found.squeeze(-2) if headless else found


def _check(teacher: Attention, student: Attention) -> None:
    if teacher.device != student.device:
        raise DeviceError(f"the teacher is on {teacher.device}, the student on {student.device}")
    a, b = teacher._call.shape, student._call.shape
    if (a.batch, a.queries, a.keys) != (b.batch, b.queries, b.keys):
        raise ShapeError(
            f"teacher {teacher.shape}, student {student.shape}: batch, queries and keys must be "
            "the same; only the number of heads and their size may differ"
        )
    for name, side in (("teacher", teacher), ("student", student)):
        if type(side._call.query) is not Tensor and hasattr(side._call.query, "placements"):
            raise InputError(f"the {name} is over DTensors; compare attentions of plain tensors")


def _sweeps(attention: Attention) -> str:
    """The sweeps that answer its questions; "" leaves the choice open."""
    name = attention.implementation
    return name if name in MEASURING else ""


class Side(NamedTuple):
    """One of the two attentions."""

    call: Call
    state: RowState
    name: str  # of the sweeps that compute its scores; "" for the first that can


@dataclass(frozen=True)
class Question:
    """What is compared, and which sides learn from it."""

    how: How
    pairing: Pairing
    learns: tuple[bool, bool] = (False, False)  # teacher, student

    def text(self) -> str:
        """One line; written out by hand, because torch.compile traces it."""
        heads = [";".join([",".join([f"{h}" for h in of]) for of in side])
                 for side in self.pairing[:2]]  # fmt: skip
        flags = "".join([f"{int(flag)}" for flag in (self.pairing.over_keys, *self.learns)])
        return "|".join([self.how, *heads, flags])

    @classmethod
    def parse(cls, text: str) -> Question:
        """Back from text."""
        how, *sides, flags = text.split("|")
        one, other = (
            tuple(tuple(map(int, of.split(","))) for of in side.split(";") if of) for side in sides
        )
        over_keys, *learns = (flag == "1" for flag in flags)
        return cls(cast(How, how), Pairing(one, other, over_keys), (learns[0], learns[1]))


# ── strips ───────────────────────────────────────────────────────────────────────────────────


class Strip(NamedTuple):
    """Some rows of one side."""

    rows: Tensor
    cols: range
    weights: Tensor  # (B, H, R, C): logarithms; a sink's in the last column, where a side has one

    def of_keys(self, over_keys: bool) -> Tensor:
        """Without the sink's, where it is no key of the result."""
        return self.weights[..., : len(self.cols)] if over_keys else self.weights


def _strips(sides: tuple[Side, Side], rows: Tensor) -> Iterator[tuple[slice, Strip, Strip]]:
    """Which of the rows, and what they hold on either side."""
    shape = sides[0].call.shape
    heads = sum(side.call.shape.query_heads for side in sides)
    wide = prod(shape.batch) * heads * shape.keys
    count = max(1, min(_ROWS, _CELLS // max(wide, 1)))
    dtype = torch.promote_types(*(side.call.exact for side in sides))
    has_sink = any(side.call.score.sink is not None for side in sides)
    device = sides[0].call.query.device
    for start in range(0, len(rows), count):
        here = slice(start, min(start + count, len(rows)))
        cols, own = _visible([side.call for side in sides], rows[here]), rows[here].to(device)
        one, other = (_strip(side, own, cols, has_sink, dtype) for side in sides)
        yield here, one, other


def _strip(side: Side, rows: Tensor, cols: range, has_sink: bool, dtype: torch.dtype) -> Strip:
    call, (peak, log), name = side
    units = torch.arange(prod(call.shape.batch) * call.shape.query_heads, device=rows.device)
    place = Place(units, rows, torch.arange(cols.start, cols.stop, device=rows.device))
    scores = _scores(call, side.state, place, name).to(dtype)
    scores = scores.reshape(prod(call.shape.batch), call.shape.query_heads, len(rows), len(cols))
    if has_sink:
        column = scores.new_full((*scores.shape[:-1], 1), -torch.inf)
        if call.score.sink is not None:
            column = call.score.sink.detach().to(dtype)[:, None, None].expand(column.shape)
        scores = torch.cat([scores, column], -1)
    top, rest = (part[..., rows].reshape(*scores.shape[:-1], 1).to(dtype) for part in (peak, log))
    weights = torch.where(top == -torch.inf, -torch.inf, (scores - top) - rest)
    return Strip(rows, cols, weights)


def _scores(call: Call, state: RowState, place: Place, name: str) -> Tensor:
    """(units, rows, cols): final scores; whole where they are no dot products, not by tiles."""
    if call.score.is_dot:
        return sweeps_for(call, name).cells(call, state, place, "scores")
    score, extent = call.score, call.shape.extent
    query, key = (t.detach().to(call.exact) for t in (call.query, call.key))
    scores = score.product(query[..., place.rows, :], key[..., place.cols, :]) * score.scale
    if call.mask is not None:
        hidden = ~call.mask.allows(place.rows, place.cols, extent)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.flatten(0, -3)


def _visible(calls: Sequence[Call], rows: Tensor) -> range:
    """The keys from the first to the last that one of the rows may see on one of the sides."""
    count = calls[0].shape.keys
    masks = [(call.mask, call.shape.extent) for call in calls]
    if any(mask is None for mask, _ in masks):
        return range(count)
    span = range(int(rows[0]), int(rows[-1]) + 1)
    tiles = [range(n, min(n + _KEYS, count)) for n in range(0, count, _KEYS)]

    def is_seen(cols: range) -> bool:
        return any(
            mask is not None and mask.verdict(span, cols, extent) is not Verdict.NONE
            for mask, extent in masks
        )

    low = next((n for n, cols in enumerate(tiles) if is_seen(cols)), len(tiles))
    high = next((n for n in range(len(tiles), low, -1) if is_seen(tiles[n - 1])), low)
    return range(low * _KEYS, min(high * _KEYS, count)) if low < high else range(0)


def _sums(sides: tuple[Side, Side], rows: Tensor, question: Question) -> list[Tensor]:
    """(*batch, G, n), and what a backend that swept both sides at once has to be told again in the
    backward; nothing where strips were taken."""
    native = _native(sides, rows, question)
    if native is None:
        value = _value(sides, rows, question)
        return [value, value.new_empty(0), sides[1].call.query.new_empty(0)]
    found, batch = native.sums(question.learns[1]), sides[0].call.shape.batch
    return [part.reshape(*batch, *part.shape[1:]) for part in found]


def _native(sides: tuple[Side, Side], rows: Tensor, question: Question) -> Native | None:
    """Where one backend serves both sides, rows stand side by side, and the teacher stays as it
    is."""
    ends = rows[[0, -1]].tolist() if len(rows) else [0, -1]
    here = range(ends[0], ends[1] + 1)
    if question.learns[0] or not here or len(here) != len(rows):
        return None
    return natively(question.how, question.pairing, sides, here)


def _value(sides: tuple[Side, Side], rows: Tensor, question: Question) -> Tensor:
    """(*batch, G, n)."""
    teacher, student, over_keys = question.pairing
    parts = []
    for _, one, other in _strips(sides, rows):
        p = mixed(one.of_keys(over_keys), teacher, over_keys)
        q = mixed(other.of_keys(over_keys), student, over_keys)
        parts.append(row_divergence(question.how, p, q))
    batch = sides[0].call.shape.batch
    if not parts:
        return sides[1].state.peak.new_zeros((*batch, len(teacher), 0))
    found = torch.cat(parts, -1)
    return found.reshape(*batch, *found.shape[1:])


def _gradients(
    sides: tuple[Side, Side],
    rows: Tensor,
    question: Question,
    grad: Tensor,
    kept: list[Tensor],
) -> list[Tensor]:
    """q, k and the rule's arrays of each side that learns; `kept` is what `_sums` brought beside
    the value."""
    teacher, student, over_keys = question.pairing
    grad = grad.reshape(prod(grad.shape[:-2]), *grad.shape[-2:])  # (B, G, n)
    native = _native(sides, rows, question)
    if native is not None:
        own = kept[0].reshape(grad.shape), kept[1].reshape(*grad.shape, -1)
        return _of_all_rows(native.gradients(grad, *own), sides[1].call, rows)
    found = [ScoreGradients(side.call) for side in sides]
    for here, *strips in _strips(sides, rows):
        u = [strip.of_keys(over_keys) for strip in strips]
        p, q = mixed(u[0], teacher, over_keys), mixed(u[1], student, over_keys)
        g = grad[..., here, None].to(p.dtype)
        for n, slopes_of in enumerate((teacher_slopes, student_slopes)):
            if not question.learns[n]:
                continue
            # rows that nobody asks about may be infinite
            slopes = torch.where(g == 0, 0.0, slopes_of(question.how, p, q) * g)
            ds = head_slopes(strips[n].weights, (teacher, student)[n], over_keys, slopes)
            _add(found[n], strips[n], ds)
    return [t for n, one in enumerate(found) if question.learns[n] for t in one.close()]


def _of_all_rows(grads: list[Tensor], call: Call, rows: Tensor) -> list[Tensor]:
    """Rows that were not asked about have no gradient."""
    query, *others = grads
    if len(rows) == call.shape.queries:
        return grads
    whole = query.new_zeros(call.query.shape)
    whole[..., int(rows[0]) : int(rows[-1]) + 1, :] = query
    return [whole, *others]


def _add(found: ScoreGradients, strip: Strip, ds: Tensor) -> None:
    """(B, H, R, C) of a strip; its last column is the sink's where there is one."""
    keys = len(strip.cols)
    found.add_rows(strip.rows, strip.cols, ds[..., :keys].flatten(0, 1).to(found.query.dtype))
    if found.sink is not None:
        found.sink += ds[..., keys:].sum((0, 2, 3)).to(found.sink.dtype)


# ── torch's operators ────────────────────────────────────────────────────────────────────────


def _with_graph(sides: tuple[Side, Side], rows: Tensor, question: Question) -> list[Tensor]:
    given = []
    for side in sides:
        call, spec = side.call.read(), Spec.of(side.call.mask, side.call.score)
        text = replace(spec, place=call.place, implementation=side.name).text()
        given.append(([call.query, call.key, *call.arrays], list(side.state), text))
    learns = sides[0].call.gradients, sides[1].call.gradients
    return divergence_of(*given[0], *given[1], rows, replace(question, learns=learns).text())


def _sides_of(
    teacher: list[Tensor], t_state: list[Tensor], t_spec: str,
    student: list[Tensor], s_state: list[Tensor], s_spec: str,
) -> tuple[Side, Side]:  # fmt: skip
    def side(tensors: list[Tensor], state: list[Tensor], spec: str) -> Side:
        q, k, *arrays = tensors
        said = Spec.parse(spec)
        return Side(said.call(q, k, k[..., :0], arrays), RowState(*state), said.implementation)

    return side(teacher, t_state, t_spec), side(student, s_state, s_spec)


@operator("divergence")
def divergence_of(
    teacher: list[Tensor],
    t_state: list[Tensor],
    t_spec: str,
    student: list[Tensor],
    s_state: list[Tensor],
    s_spec: str,
    rows: Tensor,
    question: str,
) -> list[Tensor]:
    """(*batch, G, n), and what its backward needs to know. A side is q, k and its arrays, its state
    (peak, log) and its rules."""
    asked = Question.parse(question)
    sides = _sides_of(teacher, t_state, t_spec, student, s_state, s_spec)
    value, *kept = _sums(sides, rows, asked)
    if not kept[0].numel():  # strips leave nothing; the sizes are those that tracing was promised
        width = student[0].shape[-1] if asked.learns[1] else 0
        kept = [torch.zeros_like(value), student[0].new_zeros((*value.shape, width))]
    return [part.contiguous() for part in (value, *kept)]


@divergence_of.register_fake
def _(
    teacher: list[Tensor],
    t_state: list[Tensor],
    t_spec: str,
    student: list[Tensor],
    s_state: list[Tensor],
    s_spec: str,
    rows: Tensor,
    question: str,
) -> list[Tensor]:
    said = Question.parse(question)
    dtype = torch.promote_types(t_state[0].dtype, s_state[0].dtype)
    size = (*t_state[0].shape[:-2], len(said.pairing.teacher), rows.shape[0])
    numbers = [t_state[0].new_empty(size, dtype=dtype) for _ in range(2)]
    width = student[0].shape[-1] if said.learns[1] else 0
    return [*numbers, student[0].new_empty((*size, width))]


@operator("divergence_gradient")
def gradient_of(
    teacher: list[Tensor],
    t_state: list[Tensor],
    t_spec: str,
    student: list[Tensor],
    s_state: list[Tensor],
    s_spec: str,
    rows: Tensor,
    question: str,
    grad: Tensor,
    kept: list[Tensor],
) -> list[Tensor]:
    """q, k and every array of each side that learns; zeros for the mask's arrays."""
    asked = Question.parse(question)
    sides = _sides_of(teacher, t_state, t_spec, student, s_state, s_spec)
    made = iter(_gradients(sides, rows, asked, grad, kept))
    found = []
    for side, given, learns in zip(sides, (teacher, student), asked.learns, strict=True):
        masks = len(given) - 2 - len(list(side.call.score.arrays()))
        for n, tensor in enumerate(given if learns else ()):
            own = torch.zeros_like(tensor) if 2 <= n < 2 + masks else next(made)
            found.append(own.to(tensor.dtype).contiguous())
    return found


@gradient_of.register_fake
def _(
    teacher: list[Tensor],
    t_state: list[Tensor],
    t_spec: str,
    student: list[Tensor],
    s_state: list[Tensor],
    s_spec: str,
    rows: Tensor,
    question: str,
    grad: Tensor,
    kept: list[Tensor],
) -> list[Tensor]:
    learns = Question.parse(question).learns
    sides = [side for side, does in zip((teacher, student), learns, strict=True) if does]
    return [t.new_empty(t.shape) for side in sides for t in side]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    teacher, t_state, ctx.t_spec, student, s_state, ctx.s_spec, rows, ctx.question = inputs
    ctx.sizes = len(teacher), len(student)
    specs = [Spec.parse(spec) for spec in (ctx.t_spec, ctx.s_spec)]
    ctx.rules = [functions_in(text) for spec in specs for text in (spec.mask, spec.score)]
    ctx.save_for_backward(*teacher, *student, *t_state, *s_state, rows, *output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, grads_in: list[Tensor]) -> tuple[Any, ...]:
    saved, (a, b) = list(ctx.saved_tensors), ctx.sizes
    teacher, student, states = saved[:a], saved[a : a + b], saved[a + b : -3]
    rows, *kept = saved[-3:]
    sides = teacher, states[:2], ctx.t_spec, student, states[2:], ctx.s_spec
    made = iter(gradient_of(*sides, rows, ctx.question, grads_in[0], kept))
    learns = Question.parse(ctx.question).learns
    grads: list[list[Tensor | None]] = []
    for side, does in zip((teacher, student), learns, strict=True):
        own = [next(made) if does else None for _ in side]
        grads.append([g if t.is_floating_point() else None for g, t in zip(own, side, strict=True)])
    return grads[0], [None, None], None, grads[1], [None, None], None, None, None


gradient_of.register_autograd(refuse_second)
divergence_of.register_autograd(_backward, setup_context=_save)
