"""The mass each key received, out of the backward sweep, against the definition in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from each.conftest import HERE, SWEEPING, attend, inputs_and_truth, must_serve
from regard.engine.answers import Swept
from regard.summary import Received
from regard.testing import Case, Inputs, poisoned_memory

TYPES = (torch.float32, torch.float64, torch.bfloat16)
HEADS_JOINED = (Received(), Received(groups="sum"), Received(groups="mean"))


@contextmanager
def nothing_swept() -> Iterator[None]:
    """Whoever sweeps over columns fails."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a column sweep")

    sweep, Swept._columns = Swept._columns, refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        Swept._columns = sweep  # type: ignore[method-assign]


def learned(
    inputs: Inputs, implementation: str, **more: Any
) -> tuple[regard.Attention, list[Tensor]]:
    """The attention after its backward, and the gradients of q, k and v."""
    leaves = [t.detach().clone().requires_grad_() for t in (inputs.query, inputs.key, inputs.value)]
    a = attend(Inputs(*leaves, inputs.options), implementation, **more)
    outer = torch.linspace(-1, 1, a.output.numel(), device=a.device).reshape(a.output.shape)
    return a, list(torch.autograd.grad(a.output, leaves, outer.to(a.output.dtype)))


@pytest.mark.sampled(150)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
@pytest.mark.parametrize("implementation", SWEEPING, indirect=True)
def test_mass_from_the_backward(case: Case, dtype: torch.dtype, implementation: str) -> None:
    inputs, right = inputs_and_truth(case, dtype)
    must_serve(implementation, inputs)
    with poisoned_memory():
        a, grads = learned(inputs, implementation, in_backward=(Received(),))
    plain, expected = learned(inputs, a.implementation)
    for name, mine, theirs in zip("qkv", grads, expected, strict=True):
        assert torch.equal(mine, theirs), f"d output / d {name}: other bits"
    if a.implementation == "dense":  # small, and served by no kernel: it has the matrix
        return
    with nothing_swept():
        found = a.summarize(*HEADS_JOINED)
    for summary, value in found.items():
        budget = right.once(summary, lambda steps, s=summary: s.define(steps, right.call.shape))
        budget.check(value.detach(), repr(summary))
    if a.implementation in ("cpu", "tiled"):  # which add up in one order wherever they add up
        assert torch.equal(found[Received()], plain.received()), "other bits"
