"""Gradients of every question, against autograd through the definition in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch

from each.conftest import DEVICE, HERE, attend, inputs_and_truth, must_serve
from regard.testing import Case, Inputs

QUESTIONS: dict[str, Callable[[Any], torch.Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: _finite(a.lse),
    "entropy": lambda a: a.entropy(),
    "output, lse and entropy": lambda a: a.output.sum(-1) + a.entropy() + _finite(a.lse),
    "top": lambda a: a.top(3).weights,
    "rows": lambda a: a.rows([0, -1]),
    "scores": lambda a: _finite(a.scores[..., :2, :]),
    "received": lambda a: a.received(),
    "received by some": lambda a: a.received(7, per="visible", groups="mean"),
    "received, weighted": lambda a: a.received(
        9, how="mean", weighted_by=_ramp(-1, 2, a.shape[-2], a)
    ),
    "product": lambda a: a @ _ramp(-1, 1, a.shape[-1], a),
    "transposed product": lambda a: a.T @ _ramp(-1, 1, a.shape[-2], a),
}
SOME = [case for case in HERE if case.queries and case.keys and case.queries < 300]


def _ramp(first: float, last: float, count: int, like: Any) -> torch.Tensor:
    return torch.linspace(first, last, count, dtype=like.dtype, device=DEVICE)


def _finite(scores: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(scores == -torch.inf, 0.0)


def _gradients(inputs: Inputs, implementation: str, question: str) -> list[torch.Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in (inputs.query, inputs.key, inputs.value)]
    found = QUESTIONS[question](attend(Inputs(*leaves, inputs.options), implementation))
    weights = _ramp(0.5, 1.5, found.numel(), found).reshape(found.shape)
    grads = torch.autograd.grad((found * weights).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]


@lru_cache(maxsize=1024)
def _right(case: Case, question: str) -> list[torch.Tensor]:
    return _gradients(inputs_and_truth(case, torch.float64)[0], "dense", question)


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_gradients(case: Case, implementation: str) -> None:
    inputs, _ = inputs_and_truth(case, torch.float64)
    must_serve(implementation, inputs)
    for question in QUESTIONS:
        found = _gradients(inputs, implementation, question)
        for name, mine, exact in zip("qkv", found, _right(case, question), strict=True):
            scale = max(float(exact.abs().max()), 1.0) * max(case.spread, 1.0)
            worst = float((mine - exact).abs().max()) / scale
            assert worst < 1e-10, f"d {question} / d {name}: {worst:.2e}"
