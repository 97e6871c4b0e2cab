"""How wrong a result may be: a small multiple of what the obvious computation loses.

"Eager" is the definition computed in the inputs' own precision; its distance from the definition
in float64 is the yardstick. A tolerance therefore comes from the data of the case at hand.

Nothing is above float64. There eager is the definition of inputs that were rounded once more, and
the definition itself is not exact: a sum of n terms, rounded n times this way or that, is off by
about √n halves of a grain. As much is allowed on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from regard.attention import Steps
from regard.engine.backends.dense import attend_densely
from regard.engine.call import Call

FACTOR = 4.0  # times what eager loses
GRAINS = 4.0  # times the precision's rounding of the largest number, for what eager gets exactly


@dataclass(frozen=True)
class Budget:
    """What is right, and how far from it a result may lie."""

    exact: Tensor  # float64
    allowed: float

    def excess(self, found: Tensor) -> float:
        """How many times the allowed error a result has; at most 1 is within budget."""
        return _distance(found, self.exact) / self.allowed

    def check(self, found: Tensor, name: str = "result") -> None:
        """Raise AssertionError where a result has the wrong shape or lies outside."""
        if found.shape != self.exact.shape:
            raise AssertionError(f"{name}: shape {tuple(found.shape)} ≠ {tuple(self.exact.shape)}")
        excess = self.excess(found)
        if not excess <= 1:
            raise AssertionError(
                f"{name}: error {excess * self.allowed:.3g} is {excess:.2f} × the allowed "
                f"{self.allowed:.3g}"
            )


class Yardstick:
    """The definition of one call, in float64 and as eager computes it, each computed once."""

    def __init__(self, call: Call) -> None:
        self.call = call

    @cached_property
    def exact(self) -> Steps:
        """The definition in float64."""
        return self._steps(torch.float64)

    @cached_property
    def eager(self) -> Steps:
        """In the inputs' own precision; for float64, of inputs that were rounded once more."""
        dtype = self.call.query.dtype
        if dtype != torch.float64:
            return self._steps(dtype)
        dice = torch.Generator().manual_seed(0)

        def rounded(x: Tensor) -> Tensor:
            sign = torch.randint(0, 2, x.shape, generator=dice).to(x) * 2 - 1
            return x * (1 + sign * torch.finfo(torch.float64).eps)

        call = self.call
        q, k, v = (rounded(t.detach()) for t in (call.query, call.key, call.value))
        return attend_densely(q, k, v, call.mask, call.score, torch.float64)

    def _steps(self, precision: torch.dtype) -> Steps:
        call = self.call
        return attend_densely(call.query, call.key, call.value, call.mask, call.score, precision)

    def budget(self, measure: Callable[[Steps], Tensor]) -> Budget:
        """The budget of a function of the definition's intermediates."""
        exact, eager = measure(self.exact).detach().double(), measure(self.eager).detach()
        dtype = self.call.query.dtype
        grain = torch.finfo(dtype).eps
        finite = exact[exact.isfinite()]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        loss = _distance(eager, exact)
        loss = loss if loss < float("inf") else 0.0  # where eager overflows it is no yardstick
        grains = GRAINS
        if dtype == torch.float64:
            grains += math.sqrt(max(self.exact.weights.shape[-2:])) / 2
        return Budget(exact, FACTOR * loss + grains * grain * max(largest, 1.0))


def _distance(found: Tensor, exact: Tensor) -> float:
    """The largest difference; equal infinities and NaN against NaN are no difference."""
    a, b = found.detach().double(), exact.double()
    same = (a == b) | (a.isnan() & b.isnan())
    gap = (a - b).abs().masked_fill(same, 0.0)
    gap = gap.masked_fill(gap.isnan(), float("inf"))
    return float(gap.max()) if gap.numel() else 0.0
