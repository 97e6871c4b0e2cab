"""Every answer of an Attention beside its definition: what a change of any kernel must leave right.

`ask` takes the attention, `define` the definition's steps and its shape. Factors and marks are
drawn once a problem, by `Draw`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

import regard
from each.conftest import attend, call_of
from regard.engine.backends.dense import Steps
from regard.engine.plan import choose
from regard.shapes import AttentionShape
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Offsets,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
    Weighted,
)
from regard.testing import Budget, Inputs, Yardstick, poisoned_memory


class Draw(NamedTuple):
    """What questions hold besides the attention."""

    x: Tensor  # (…, S, 3)
    y: Tensor  # (…, L, 3)
    wide: Tensor  # (L, 70): two chunks of columns
    by: Tensor  # (L,)
    query_marks: Tensor
    key_marks: Tensor


def draw(shape: AttentionShape, exact: torch.dtype, device: str, seed: int) -> Draw:
    """Numbers of a problem."""
    dice = torch.Generator().manual_seed(seed)

    def numbers(*size: int) -> Tensor:
        return torch.randn(*size, generator=dice, dtype=torch.float64).to(device, exact)

    lead, (queries, keys) = (*shape.batch, shape.query_heads), (shape.queries, shape.keys)
    x, y, wide, by = (
        numbers(*size)
        for size in ((*lead, keys, 3), (*lead, queries, 3), (queries, 70), (queries,))
    )
    marks = [torch.randint(3, (n,), generator=dice).to(device) for n in (queries, keys)]
    return Draw(x, y, wide, by, *marks)


class Answer(NamedTuple):
    """One question, and what is right about it."""

    ask: Callable[[regard.Attention, Draw], Tensor]
    define: Callable[[Steps, AttentionShape, Draw], Tensor]


def _summary(make: Callable[[Draw], Summary]) -> Answer:
    def ask(a: regard.Attention, given: Draw) -> Tensor:
        summary = make(given)
        found: Tensor = a.summarize(summary)[summary]
        return found

    return Answer(ask, lambda steps, shape, given: make(given).define(steps, shape))


def _places(count: int) -> list[int]:
    """The first, the last and one between."""
    return sorted({0, count // 2, count - 1})


ANSWERS: dict[str, Answer] = {
    "output": Answer(lambda a, _: a.output, lambda s, *_: s.context),
    "lse": Answer(lambda a, _: a.lse, lambda s, *_: s.lse),
    "entropy": _summary(lambda _: Entropy()),
    "max score": _summary(lambda _: MaxScore()),
    "max logit": _summary(lambda _: MaxLogit()),
    "concentration": _summary(lambda _: Concentration()),
    "distance": _summary(lambda _: Distance()),
    "visible": _summary(lambda _: Visible()),
    "matching": _summary(lambda d: Matching(d.query_marks, d.key_marks)),
    "received": _summary(lambda _: Received()),
    "received by some": _summary(lambda _: Received(5, "visible")),
    "largest": _summary(lambda _: Received(how="max")),
    "weighted": _summary(lambda d: Weighted(Received(), d.by)),
    "offsets": _summary(lambda _: Offsets()),
    "map": _summary(lambda _: Pooled(16)),
    "map of any cell": _summary(lambda _: Pooled(7)),
    "map of maxima": _summary(lambda _: Pooled(40, "max")),
    "a @ x": Answer(lambda a, d: a @ d.x, lambda s, _, d: s.weights @ d.x.to(s.weights)),
    "a.T @ y": Answer(lambda a, d: a.T @ d.y, lambda s, _, d: s.weights.mT @ d.y.to(s.weights)),
    "a.T @ wide": Answer(
        lambda a, d: a.T @ d.wide, lambda s, _, d: s.weights.mT @ d.wide.to(s.weights)
    ),
    "a.T @ vector": Answer(
        lambda a, d: a.T @ d.by, lambda s, _, d: s.weights.mT @ d.by.to(s.weights)
    ),
    "rows": Answer(
        lambda a, _: a.rows(_places(a.shape[-2])),
        lambda s, shape, _: s.weights[..., _places(shape.queries), :],
    ),
    "columns": Answer(
        lambda a, _: a[..., _places(a.shape[-1])],
        lambda s, shape, _: s.weights[..., _places(shape.keys)],
    ),
    "scores": Answer(lambda a, _: a.scores[..., ::2, :], lambda s, *_: s.masked[..., ::2, :]),
}
# answers about places that there must be
OF_PLACES = ("rows", "columns", "scores")
QUESTIONS: dict[str, Callable[[regard.Attention, Draw], Tensor]] = {
    "output": lambda a, _: a.output,
    "output, entropy and lse": lambda a, _: a.output.sum(-1) + a.entropy() + _finite(a.lse),
    "received": lambda a, _: a.received(),
    "rows": lambda a, _: a.rows(_places(a.shape[-2])),
    "top": lambda a, _: a.top(2).weights,
    "a @ x": lambda a, d: a @ d.x,
    "a.T @ y": lambda a, d: a.T @ d.y,
}


def _finite(numbers: Tensor) -> Tensor:
    return numbers.masked_fill(numbers == -torch.inf, 0.0)


def serves(inputs: Inputs, implementation: str) -> bool:
    """Whether it takes the problem; what refuses says why."""
    try:
        choose(call_of(inputs).problem(), None if implementation == "default" else implementation)
    except regard.errors.UnavailableError as error:
        assert error.reasons[implementation], error
        return False
    return True


def expect_right(
    inputs: Inputs, implementation: str, right: Yardstick, names: Iterable[str], seed: int = 0
) -> None:
    """Answers by name, over memory in which nothing is right by chance."""
    shape = right.call.shape
    given = draw(shape, right.call.exact, inputs.query.device.type, seed)
    empty = 0 in (shape.queries, shape.keys)
    with poisoned_memory():
        a = attend(inputs, implementation)
        found = {
            name: ANSWERS[name].ask(a, given) for name in names if not (empty and name in OF_PLACES)
        }
    for name, numbers in found.items():
        define = ANSWERS[name].define
        budget = right.budget(lambda steps, d=define: d(steps, shape, given))
        budget.check(numbers, f"{implementation}: {name}")


def expect_top(inputs: Inputs, implementation: str, right: Yardstick, k: int) -> None:
    """Weights in order, each that of its key; keys may swap where weights are near."""
    with poisoned_memory():
        top = attend(inputs, implementation).top(k)
    shape = right.call.shape
    right.budget(lambda s: Top(k).define(s, shape).weights).check(top.weights, f"top {k}")
    if shape.keys:
        there = top.keys >= 0
        places = top.keys.clamp(min=0)
        right.budget(lambda s: s.weights.gather(-1, places) * there).check(
            top.weights * there, f"{implementation}: top {k}, by key"
        )


def expect_gradients(
    inputs: Inputs, implementation: str, right: Yardstick, question: str, seed: int = 0
) -> None:
    """Against autograd through the definition in float64, as far off as in its own precision."""
    shape = right.call.shape
    tensors, exact = (inputs.query, inputs.key, inputs.value), right.call.exact
    given = draw(shape, exact, inputs.query.device.type, seed)

    def learned(name: str, dtype: torch.dtype) -> list[Tensor]:
        leaves = [t.detach().to(dtype).requires_grad_() for t in tensors]
        held = Draw(*(t.to(dtype) if t.is_floating_point() else t for t in given))
        options = {
            n: o.to(dtype) if isinstance(o, Tensor) and o.is_floating_point() else o
            for n, o in inputs.options.items()
        }
        answer = QUESTIONS[question](attend(Inputs(*leaves, options), name), held)
        dice = torch.Generator().manual_seed(seed)
        outer = torch.rand(answer.shape, generator=dice, dtype=torch.float64) + 0.5
        loss = (answer * outer.to(answer)).sum()
        grads = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]

    with poisoned_memory():
        mine = learned(implementation, inputs.query.dtype)
    wide, eager = learned("dense", torch.float64), learned("dense", inputs.query.dtype)
    grain = float(torch.finfo(inputs.query.dtype).eps)
    for name, found, whole, loss in zip("qkv", mine, wide, eager, strict=True):
        # gradients pass through many roundings; in float64 eager is what is right, and no measure
        largest = max(float(whole.abs().amax()) if whole.numel() else 0.0, 1.0)
        lost = float((loss.double() - whole).abs().amax()) if whole.numel() else 0.0
        grains = 256 if inputs.query.dtype == torch.float64 else 16
        budget = Budget(whole, 4 * lost + grains * grain * largest)
        budget.check(found, f"{implementation}: d {question} / d {name}")
