"""torch.autograd.gradcheck of every question with a gradient, in float64, over every input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard

QUESTIONS: dict[str, Callable[[Any], torch.Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse,
    "entropy": lambda a: a.entropy(),
    "normalised entropy": lambda a: a.entropy(normalized=True),
    "sink mass": lambda a: a.sink_mass(),
    "top": lambda a: a.top(3).weights,
    "peak": lambda a: a.peak().weights,
    "rows, one twice": lambda a: a.rows([1, 3, 1]),
    "slice": lambda a: a[0, 1:3, 2, 1:4],
    "single cells": lambda a: a[
        0, torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([1, 1])
    ],
    "scores": lambda a: a.scores[..., 2:, :3],
    "received": lambda a: a.received(),
    "received by some, per group": lambda a: a.received(3, per="visible", groups="mean"),
    "product": lambda a: a @ torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2),
    "transposed product": lambda a: a.T @ torch.linspace(-1, 1, 10, dtype=torch.float64).view(5, 2),
}
BIASES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "none": ((), lambda _: None),
    "table": ((4, 5, 6), lambda x: x),
    "one row for all": ((1, 6), lambda x: x),
    "alibi": ((4,), regard.ALiBi),
    "relative": ((8, 4), lambda x: regard.RelativeBias(x, max_distance=16)),
}


def _leaf(*shape: int, seed: int) -> torch.Tensor:
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=dice, requires_grad=True)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_every_question(implementation: str, bias: str) -> None:
    if implementation == "cpu" and bias != "none":
        with pytest.raises(regard.errors.UnavailableError, match="no gradient to a bias"):
            q = _leaf(1, 4, 5, 3, seed=0)
            regard.attend(q, q, q, bias=_leaf(4, 5, 5, seed=1), implementation="cpu")
        return
    shape, make = BIASES[bias]
    inputs = [_leaf(1, 4, 5, 3, seed=0), _leaf(1, 2, 6, 3, seed=1), _leaf(1, 2, 6, 2, seed=2)]
    inputs += [_leaf(4, seed=3), *([_leaf(*shape, seed=4)] if shape else [])]

    for name, question in QUESTIONS.items():

        def run(*given: torch.Tensor, ask: Any = question) -> torch.Tensor:
            q, k, v, sink, *rest = given
            a = regard.attend(
                q, k, v, sink=sink, bias=make(rest[0]) if rest else None, softcap=3.0,
                implementation=implementation,
            )  # fmt: skip
            return ask(a)

        assert torch.autograd.gradcheck(run, inputs, fast_mode=True), name


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
def test_masked_rows_have_finite_gradients(implementation: str) -> None:
    inputs = [_leaf(2, 2, 5, 3, seed=n) for n in range(3)]
    mask = regard.Padding([0, 4]) & regard.Causal()

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        a = regard.attend(q, k, v, mask=mask, implementation=implementation)
        return a.output.sum(-1) + a.entropy() + a.top(2).weights.sum(-1)

    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
