"""The sweeps as torch operators: shapes for tracing, gradients for autograd.

Each operator takes tensors and one text (`spec`) that says everything else: mask, score rule,
implementation, what is asked. So they pass through torch.compile and torch.export as opaque
nodes, and nothing about a mask's values is looked at while tracing.

    rows       q, k, v, arrays       output, peak, log, lse, then what each measure brings;
                                     columns too, where maps keep them company
    columns    q, k, arrays, state   mass, seen, product, offsets, largest
    cells      q, k, arrays, state   a rectangle of weights or scores
    attach     a known value         the same value, with its gradient: entropy, top weights, mass
    refuse     a known value         the same value; asking for its gradient is an error
    gradient   what arrived          gradients of q, k, v and the arrays; the mass where asked for

`state` is a row sweep's (peak, log). lse is a constant to these operators: a weight is
exp(s − lse) and lse moves with every score of its row, so each gradient puts lse's part in by
itself and is a total derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from regard.declare import functions_in
from regard.engine import gradients as carry
from regard.engine.backend import Sweeps, rows_and_columns
from regard.engine.call import Brought, Call, Place, RowState, parts_of
from regard.engine.codec import Spec, measures_of
from regard.engine.operator import operator
from regard.engine.plan import sweeps_for
from regard.errors import GradientError
from regard.shapes import AttentionShape
from regard.summary import Entropy, RowStatistic

# where the operator called now shall leave the mass that its backward brings: torch makes the
# graph's node inside the operator
_EXPECTED: ContextVar[Brought | None] = ContextVar("regard_brought", default=None)

_HEAD = 4  # output, peak, log and lse stand before the measures


@contextmanager
def bringing(brought: Brought) -> Iterator[None]:
    """The operator called within the block leaves its mass there."""
    token = _EXPECTED.set(brought)
    try:
        yield
    finally:
        _EXPECTED.reset(token)


# ── forward ──────────────────────────────────────────────────────────────────────────────────


@operator("rows")
def rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    arrays: list[Tensor],
    given: list[Tensor],
    marks: list[Tensor],
    seed: Tensor | None,
    spec: str,
) -> list[Tensor]:
    """One row sweep, and a column sweep where columns are among the measures."""
    said = Spec.parse(spec)
    call = said.call(q, k, v, arrays, 0 if seed is None else int(seed))
    measures = measures_of(said.asked, marks)
    lse = RowState(*given) if given else None
    found = rows_and_columns(_sweeps(call, said), call, said.output, measures, lse)
    output = q.new_empty(0) if found.output is None else found.output.to(q.dtype)
    flat = [part for m in measures for part in parts_of(found.measured[m])]
    made = [output, *found.state, found.state.lse, *flat]
    return [part.contiguous() for part in made]


def _sweeps(call: Call, said: Spec) -> Sweeps:
    return sweeps_for(call, said.implementation, said.checked, said.learns)


@rows.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    arrays: list[Tensor],
    given: list[Tensor],
    marks: list[Tensor],
    seed: Tensor | None,
    spec: str,
) -> list[Tensor]:
    said = Spec.parse(spec)
    exact = torch.promote_types(q.dtype, torch.float32)
    lead = q.shape[:-1]
    output = q.new_empty((*lead, v.shape[-1]) if said.output else (0,))
    numbers = [q.new_empty(lead, dtype=exact) for _ in range(3)]
    shape = AttentionShape.of(q.shape, k.shape, dot=False)
    sizes = [size for m in measures_of(said.asked, marks) for size in m.tensors(shape)]
    made = [q.new_empty(size, dtype=torch.int64 if whole else exact) for size, whole in sizes]
    return [output, *numbers, *made]


@operator("columns")
def columns(
    q: Tensor,
    k: Tensor,
    arrays: list[Tensor],
    state: list[Tensor],
    chosen: Tensor | None,
    y: Tensor | None,
    spec: str,
    by: Tensor | None,
) -> list[Tensor]:
    """One column sweep: mass and seen (…, Hq, S), product (…, Hq, S, M), offsets, largest."""
    said = Spec.parse(spec)
    call = said.call(q, k, k[..., :0], arrays)
    sweeps = _sweeps(call, said)
    found = sweeps.columns(call, RowState(*state), chosen, y, said.columns._replace(by=by))
    nothing = found.mass.new_empty(0)
    seen = nothing.to(torch.int64) if found.seen is None else found.seen
    rest = found.product, found.offsets, found.largest
    return [found.mass, seen, *(nothing.clone() if part is None else part for part in rest)]


@columns.register_fake
def _(
    q: Tensor,
    k: Tensor,
    arrays: list[Tensor],
    state: list[Tensor],
    chosen: Tensor | None,
    y: Tensor | None,
    spec: str,
    by: Tensor | None,
) -> list[Tensor]:
    full, said = (*q.shape[:-2], k.shape[-2]), Spec.parse(spec)
    exact, diagonals = state[0].dtype, q.shape[-2] + k.shape[-2] - 1
    return [
        q.new_empty(full, dtype=exact),
        q.new_empty(full if said.seen else (0,), dtype=torch.int64),
        q.new_empty((0,) if y is None else (*full, y.shape[-1]), dtype=exact),
        q.new_empty((*q.shape[:-2], diagonals) if said.offsets else (0,), dtype=exact),
        q.new_empty(full if said.largest else (0,), dtype=exact),
    ]


@operator("cells")
def cells(
    q: Tensor, k: Tensor, arrays: list[Tensor], state: list[Tensor], place: list[Tensor], spec: str
) -> Tensor:
    """(units, rows, cols): weights, or final scores."""
    said = Spec.parse(spec)
    call = said.call(q, k, k[..., :0], arrays)
    sweeps = _sweeps(call, said)
    return sweeps.cells(call, RowState(*state), Place(*place), said.what)


@cells.register_fake
def _(
    q: Tensor, k: Tensor, arrays: list[Tensor], state: list[Tensor], place: list[Tensor], spec: str
) -> Tensor:
    return q.new_empty([part.shape[0] for part in place], dtype=state[0].dtype)


@operator("attach")
def attach(
    q: Tensor,
    k: Tensor,
    arrays: list[Tensor],
    state: list[Tensor],
    value: Tensor,
    keys: Tensor | None,
    spec: str,
) -> Tensor:
    """A known entropy (no keys), lse (of scores), weights of top keys, the mass of all queries or
    the statistic that the text names, with their gradient."""
    return value.clone()


@attach.register_fake
def _(
    q: Tensor,
    k: Tensor,
    arrays: list[Tensor],
    state: list[Tensor],
    value: Tensor,
    keys: Tensor | None,
    spec: str,
) -> Tensor:
    return torch.empty_like(value)


@operator("refuse")
def refuse(value: Tensor, q: Tensor, k: Tensor, what: str) -> Tensor:
    """The value as it is; asking for its gradient is an error, not a silent zero."""
    return value.clone()


@refuse.register_fake
def _(value: Tensor, q: Tensor, k: Tensor, what: str) -> Tensor:
    return torch.empty_like(value)


# ── the one gradient operator ────────────────────────────────────────────────────────────────


@operator("gradient")
def gradient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    arrays: list[Tensor],
    state: list[Tensor],
    told: list[Tensor],
    kind: str,
    spec: str,
) -> list[Tensor]:
    """q, k, v, the arrays; for a product also that of its other factor, for an output the mass each
    key received where the text asks for it. `told` by kind:

    output   grad_output, shift, seed or empty, and slope where entropy takes part
    rows     the same with the output before the shift, which lacks Σ grad_output · output
    product  g, outer
    cells    units, rows, cols, on_scores, on_lse
    top      keys, on_scores
    declared gradient and value of the one statistic that the text names
    """
    said = Spec.parse(spec)
    whole = None
    if kind == "rows":
        whole, told, kind = told[1], [told[0], *told[2:]], "output"
    seed = int(told[2]) if kind == "output" and told[2].numel() else 0
    call = said.call(q, k, v, arrays, seed)
    sweeps, rows_state = _sweeps(call, said), RowState(*state)
    masks = len(arrays) - len(list(call.score.arrays()))
    more: list[Tensor] = []
    if kind == "output":
        slope = told[3] if len(told) > 3 else None
        dq, dk, dv, *rule = carry.by_output(
            sweeps, call, rows_state, told[0], told[1], slope, said.mass, whole
        )
        more = [rule.pop()] if said.mass else []
    elif kind == "product":
        dq, dk, *rule, other = carry.by_product(sweeps, call, rows_state, told[0], told[1])
        more = [other]
    elif kind == "cells":
        place = Place(*told[:3])
        dq, dk, *rule = carry.by_cells(sweeps, call, rows_state, place, told[3], told[4])
    elif kind == "declared":
        (statistic,) = measures_of(said.asked)
        assert isinstance(statistic, RowStatistic)
        dq, dk, *rule = carry.by_slopes(sweeps, call, rows_state, statistic, told[0], told[1])
    else:
        dq, dk, *rule = carry.by_top(sweeps, call, rows_state, told[0], told[1])
    dv = dv if kind == "output" else torch.zeros_like(v)
    none = [torch.zeros_like(mask) for mask in arrays[:masks]]
    made = zip((q, k, v, *arrays), (dq, dk, dv, *none, *rule), strict=True)
    return [*(grad.to(given.dtype).contiguous() for given, grad in made), *more]


@gradient.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    arrays: list[Tensor],
    state: list[Tensor],
    told: list[Tensor],
    kind: str,
    spec: str,
) -> list[Tensor]:
    found = [t.new_empty(t.shape) for t in (q, k, v, *arrays)]
    if kind == "product":
        found.append(told[1].new_empty(told[1].shape))
    elif kind in ("output", "rows") and Spec.parse(spec).mass:
        found.append(q.new_empty((*q.shape[:-2], k.shape[-2]), dtype=state[0].dtype))
    return found


# ── gradients ────────────────────────────────────────────────────────────────────────────────


def _remember(ctx: Any, spec: str, arrays: Sequence[Tensor], tensors: Sequence[Any]) -> None:
    """Rules are held too: the text names their functions."""
    ctx.spec, ctx.arrays = spec, len(arrays)
    rules = Spec.parse(spec)
    ctx.rules = functions_in(rules.mask) if rules.names_functions else ()
    ctx.save_for_backward(*tensors, *arrays)


def _recall(ctx: Any) -> tuple[list[Any], list[Tensor]]:
    saved = list(ctx.saved_tensors)
    return saved[: len(saved) - ctx.arrays], saved[len(saved) - ctx.arrays :]


def _floats(arrays: list[Tensor], grads: list[Tensor]) -> list[Tensor | None]:
    """Masks have no gradient."""
    return [g if a.is_floating_point() else None for a, g in zip(arrays, grads, strict=True)]


def _place_of_entropy(q: Tensor, k: Tensor, marks: list[Tensor], spec: str) -> int | None:
    """Where among the outputs of `rows` entropy is, as far as it takes part in the graph."""
    said = Spec.parse(spec)
    at, shape = _HEAD, AttentionShape.of(q.shape, k.shape, dot=False)
    for summary in () if said.aside else measures_of(said.asked, marks):
        if summary == Entropy():
            return at
        at += len(summary.tensors(shape))
    return None


def _save_rows(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    q, k, v, arrays, given, marks, seed, spec = inputs
    ctx.entropy_at = _place_of_entropy(q, k, marks, spec)
    entropy = None if ctx.entropy_at is None else output[ctx.entropy_at]
    peak, log = given or output[1:3]
    _remember(ctx, spec, arrays, [q, k, v, seed, output[0], peak, log, entropy])
    ctx.set_materialize_grads(False)  # which outputs took part decides what is computed
    offered = (output[0], output[3], entropy)
    ctx.mark_non_differentiable(*(t for t in output if not any(t is o for o in offered)))
    ctx.given, ctx.marks = len(given), len(marks)
    ctx.brought = _EXPECTED.get() if Spec.parse(spec).mass else None


def _rows_backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    (q, k, v, seed, output, peak, log, entropy), arrays = _recall(ctx)
    g_output, g_lse = grads[0], grads[3]
    g_entropy = None if ctx.entropy_at is None else grads[ctx.entropy_at]
    shift = torch.zeros_like(peak)
    kind, values = ("output", v[..., :0]) if g_output is None else ("rows", v)
    if g_lse is not None:
        shift = shift - g_lse
    told = [q.new_zeros((*q.shape[:-1], 0))] if g_output is None else [g_output, output]
    told += [shift if g_entropy is None else shift + g_entropy * entropy]
    told += [peak.new_empty(0) if seed is None else seed]
    told += [] if g_entropy is None else [g_entropy]
    found = gradient(q, k, values, arrays, [peak, log], told, kind, ctx.spec)
    if ctx.brought is not None:
        ctx.brought.mass = found.pop().detach()
    dv = found[2] if grads[0] is not None else None
    lists = _floats(arrays, found[3:]), [None] * ctx.given, [None] * ctx.marks
    return found[0], found[1], dv, *lists, None, None


def _save_columns(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    q, k, arrays, state, chosen, y, spec, by = inputs
    _remember(ctx, spec, arrays, [q, k, *state, chosen, y, by])
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1], output[3], output[4])


def _columns_backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    """Σ_i p_ij y_i has dP_ij = y_i · g_j. Mass is the same with y = 1, or what its weights are
    multiplied `by`, in the chosen rows."""
    (q, k, peak, log, chosen, y, by), arrays = _recall(ctx)
    on_mass, on_product = grads[0], grads[2] if y is not None else None
    if on_mass is None and on_product is None:
        return None, None, [None] * len(arrays), [None, None], None, None, None, None
    ones = (torch.ones_like(peak) if by is None else by.to(peak.dtype)).unsqueeze(-1)
    if chosen is not None:
        ones = ones * chosen[:, None]
        y = None if y is None else y * chosen[:, None]
    parts = [] if on_mass is None else [(on_mass.unsqueeze(-1), ones)]
    if on_product is not None:
        parts.append((on_product, y.to(peak.dtype)))
    g = torch.cat([part[0] for part in parts], -1)
    outer = torch.cat([part[1] for part in parts], -1)
    told = [g, outer]
    found = gradient(q, k, k[..., :0], arrays, [peak, log], told, "product", ctx.spec)
    others = found[-1] if chosen is None else found[-1] * chosen[:, None]
    grad_y = None if on_product is None else others[..., -on_product.shape[-1] :]
    on_by = None
    if by is not None and on_mass is not None:
        on_by = others[..., 0].to(by.dtype)
    of_arrays = _floats(arrays, found[3:-1])
    return found[0], found[1], of_arrays, [None, None], None, grad_y, None, on_by


def _save_cells(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    q, k, arrays, state, place, spec = inputs
    _remember(ctx, spec, arrays, [q, k, *state, *place, output])


def _cells_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (q, k, peak, log, units, at_rows, at_cols, found), arrays = _recall(ctx)
    on_lse = torch.zeros_like(peak)
    if Spec.parse(ctx.spec).what == "weights":
        on_scores = grad * found
        at = (units[:, None] * peak.shape[-1] + at_rows).reshape(-1)
        on_lse = on_lse.reshape(-1).index_add(0, at, -on_scores.sum(-1).reshape(-1))
        on_lse = on_lse.reshape(peak.shape)
    else:
        on_scores = torch.where(found == -torch.inf, 0.0, grad)
    told = [units, at_rows, at_cols, on_scores, on_lse]
    made = gradient(q, k, k[..., :0], arrays, [peak, log], told, "cells", ctx.spec)
    return made[0], made[1], _floats(arrays, made[3:]), [None, None], [None] * 3, None


def _save_attached(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    q, k, arrays, state, value, keys, spec = inputs
    _remember(ctx, spec, arrays, [q, k, *state, value, keys])


def _attached_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (q, k, peak, log, value, keys), arrays = _recall(ctx)
    said = Spec.parse(ctx.spec)
    if said.mass:
        told, kind = [grad.unsqueeze(-1), torch.ones_like(peak).unsqueeze(-1)], "product"
    elif said.asked:
        told, kind = [grad, value], "declared"
    elif said.what == "scores":  # of which it is the lse
        told, kind = [q.new_zeros((*q.shape[:-1], 0)), -grad, peak.new_empty(0)], "output"
    elif keys is None:
        nothing = q.new_zeros((*q.shape[:-1], 0))
        told, kind = [nothing, grad * value, peak.new_empty(0), grad], "output"
    else:
        told, kind = [keys, grad * value], "top"
    found = gradient(q, k, k[..., :0], arrays, [peak, log], told, kind, ctx.spec)
    of_arrays = found[3 : 3 + len(arrays)]
    return found[0], found[1], _floats(arrays, of_arrays), [None, None], None, None, None


def _no_gradient(what: str) -> str:
    return (
        f"{what} has no gradient here; output, lse, entropy, top and peak weights, rows, slices, "
        "sums of received and products have one. Detach it, or use implementation='dense'"
    )


def _save_refusal(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.what = inputs[3]


def _refuse_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    raise GradientError(_no_gradient(ctx.what))


def refuse_second(ctx: Any, *grads: Any) -> Any:
    """The backward of a backward."""
    raise GradientError(
        "a second derivative is asked for (create_graph=True, then backward again); only "
        "implementation='dense' has them, every other has first ones"
    )


gradient.register_autograd(refuse_second)
rows.register_autograd(_rows_backward, setup_context=_save_rows)
columns.register_autograd(_columns_backward, setup_context=_save_columns)
cells.register_autograd(_cells_backward, setup_context=_save_cells)
attach.register_autograd(_attached_backward, setup_context=_save_attached)
refuse.register_autograd(_refuse_backward, setup_context=_save_refusal)
