"""Every answer of an attention beside its definition in plain torch operations, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import GradientError


class Matrix(NamedTuple):
    """The definition's numbers, with their graph."""

    scores: Tensor  # (…, H, L, S): final ones, −∞ where hidden
    weights: Tensor
    lse: Tensor  # (…, H, L)
    sink: Tensor  # (…, H, L): its share
    has_sink: bool

    @property
    def visible(self) -> Tensor:
        """Booleans."""
        return self.scores != -math.inf


def define(scores: Tensor, sink: Tensor | None) -> Matrix:
    """Softmax with one more key for the sink (H,); rows that see nothing have weights 0."""
    extra = scores.new_full((*scores.shape[:-1], 1), -math.inf)
    if sink is not None:
        extra = sink.to(scores)[:, None, None].expand(extra.shape)
    full = torch.cat([scores, extra], -1)
    empty = (full == -math.inf).all(-1)
    filled = full.masked_fill(empty[..., None], 0.0)
    p = filled.softmax(-1).masked_fill(empty[..., None], 0.0)
    lse = filled.logsumexp(-1).masked_fill(empty, -math.inf)
    return Matrix(scores, p[..., :-1], lse, p[..., -1], sink is not None)


def finite(values: Tensor) -> Tensor:
    """−∞ has no gradient."""
    return values.masked_fill(values == -math.inf, 0.0)


def ramp(count: int, like: Any, *lead: int) -> Tensor:
    """(*lead, count): numbers that differ."""
    numbers = torch.linspace(-1, 2, count * math.prod(lead), dtype=torch.float64)
    return numbers.reshape(*lead, count).to(like.device, like.dtype)


def _entropy(m: Matrix) -> Tensor:
    p = torch.cat([m.weights, m.sink[..., None]], -1)
    return -torch.where(p > 0, p * torch.where(p > 0, p, 1.0).log(), 0.0).sum(-1)


def _even(m: Matrix) -> Tensor:
    choices = m.visible.sum(-1) + m.has_sink
    return torch.where(choices > 1, _entropy(m) / choices.clamp(min=2).double().log(), 0.0)


def _mean(m: Matrix) -> Tensor:
    seen = m.visible.sum(-2)
    return torch.where(seen > 0, m.weights.sum(-2) / seen.clamp(min=1), 0.0)


def _heaviest(m: Matrix, k: int) -> Tensor:
    count = min(k, m.weights.shape[-1])
    top = m.weights.topk(count, -1).values
    return torch.nn.functional.pad(top, (0, k - count))


def _by(m: Matrix) -> Tensor:
    return m.weights * ramp(m.weights.shape[-2], m.weights)[:, None]


def _ends(matrix: Any) -> list[int]:
    return [-1, 0][: matrix.shape[-2]]


def _largest(values: Tensor, axis: int) -> Tensor:
    """−∞ of nothing."""
    none = torch.full_like(values.sum(axis, keepdim=True), -math.inf)
    return torch.cat([values, none], axis).amax(axis)


Ask = Callable[[Any], Tensor]
Define = Callable[[Matrix], Tensor]

# with a gradient
ANSWERS: dict[str, tuple[Ask, Define]] = {
    "lse": (lambda a: finite(a.lse), lambda m: finite(m.lse)),
    "entropy": (lambda a: a.entropy(), _entropy),
    "normalized entropy": (lambda a: a.entropy(normalized=True), _even),
    "sink mass": (lambda a: a.sink_mass(), lambda m: m.sink),
    "top": (lambda a: a.top(3).weights, lambda m: _heaviest(m, 3)),
    "peak": (lambda a: a.peak().weights, lambda m: _heaviest(m, 1)[..., 0]),
    "rows": (lambda a: a.rows(_ends(a)), lambda m: m.weights[..., _ends(m.weights), :]),
    "a slice": (lambda a: a[..., 1:4, :5], lambda m: m.weights[..., 1:4, :5]),
    "dense": (lambda a: a.dense(), lambda m: m.weights),
    "scores": (lambda a: finite(a.scores[..., :2, :]), lambda m: finite(m.scores[..., :2, :])),
    "received": (lambda a: a.received(), lambda m: m.weights.sum(-2)),
    "received by some": (lambda a: a.received(2), lambda m: m.weights[..., -2:, :].sum(-2)),
    "received per visible": (lambda a: a.received(per="visible"), _mean),
    "received, weighted": (
        lambda a: a.received(weighted_by=ramp(a.shape[-2], a)), lambda m: _by(m).sum(-2),
    ),
    "a product": (
        lambda a: a @ ramp(2, a, a.shape[-1]), lambda m: m.weights @ ramp(2, m[0], m[0].shape[-1]),
    ),
    "a transposed product": (
        lambda a: a.T @ ramp(2, a, a.shape[-2]),
        lambda m: m.weights.mT @ ramp(2, m[0], m[0].shape[-2]),
    ),
    "a function of tensors": (lambda a: torch.sin(a), lambda m: m.weights.sin()),
}  # fmt: skip

# without: asking for their gradient raises in words
REFUSED: dict[str, tuple[Ask, Define]] = {
    "max logit": (lambda a: finite(a.max_logit()), lambda m: finite(_largest(m.scores, -1))),
    "concentration": (lambda a: a.concentration(), lambda m: m.weights.square().sum(-1)),
    "largest received": (
        lambda a: a.received(how="max"),
        lambda m: _largest(m.weights, -2).clamp(min=0),
    ),
}


def check_answer(name: str, a: Any, matrix: Matrix, leaves: Sequence[Tensor], words: str) -> None:
    """Value and gradient are the definition's; where a gradient is refused, the error is ours. All
    in float64."""
    ask, definition = (ANSWERS | REFUSED)[name]
    words = f"{words}: {name}"
    value, right = ask(a), definition(matrix)
    compare(value, right, words)
    if (
        not right.requires_grad
        or not right.numel()
        or (name == "sink mass" and not matrix.has_sink)
    ):
        return
    if not value.requires_grad and matrix.scores.numel():  # of no keys, all are constants
        raise AssertionError(f"{words} has no gradient, and does not say so")
    weights = ramp(right.numel(), right).reshape(right.shape)
    if not value.requires_grad:
        return
    try:
        mine = torch.autograd.grad(
            (value * weights).sum(), leaves, allow_unused=True, retain_graph=True
        )
    except GradientError:
        if name in REFUSED:
            return
        raise
    theirs = torch.autograd.grad(
        (right * weights).sum(), leaves, allow_unused=True, retain_graph=True
    )
    for n, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        zero = torch.zeros_like(leaves[n])
        compare(zero if one is None else one, zero if other is None else other, f"{words} / {n}")


def compare(value: Tensor, right: Tensor, words: str) -> None:
    """Nearly equal, of one shape, and nothing is NaN."""
    if value.shape != right.shape:
        raise AssertionError(f"{words}: shape {tuple(value.shape)} ≠ {tuple(right.shape)}")
    if value.isnan().any():
        raise AssertionError(f"{words}: NaN")
    value, right = value.detach(), right.detach()
    gap = (value.double() - right.double()).masked_fill(value == right, 0.0).abs()
    largest = max(
        float(right[right.isfinite()].abs().max()) if right.isfinite().any() else 0.0, 1.0
    )
    if gap.numel() and not float(gap.max()) <= 1e-9 * largest:
        raise AssertionError(f"{words}: off by {float(gap.max()):.3g} of {largest:.3g}")
