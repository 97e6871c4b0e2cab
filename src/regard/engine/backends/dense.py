"""The definition, `regard/attention.py`, as an implementation: every call, at N×N memory.

query (…, Hq, L, D)   key (…, Hkv, S, D)   value (…, Hkv, S, Dv)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard import attention
from regard.attention import Steps
from regard.engine.call import Answers, Call, Known, Place, Problem, RowState, What, position_of
from regard.mask import Mask
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.summary import Summary


def attend_densely(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | None,
    score: ScoreRule,
    precision: torch.dtype | None = None,
    place: int | None = None,
) -> Steps:
    """All steps of softmax(cap(scale·QKᵀ) + bias, masked) V, in at least float32 or as told."""
    shape = AttentionShape.of(query.shape, key.shape, value.shape, dot=score.is_dot)
    exact = precision or torch.promote_types(query.dtype, torch.float32)
    score = score.map(lambda array: array.to(exact) if array.is_floating_point() else array)
    return attention.attend(
        query.to(exact), key.to(exact), value.to(exact), factor=score.scale, limit=score.softcap,
        rule=score.bias, allowed=mask, sink=score.sink, product=score.product,
        position=position_of(mask, shape, place, query.device),
    )  # fmt: skip


class Dense:
    """The definition as an implementation: serves everything, at N×N memory."""

    name = "dense"

    def unavailable(self) -> list[str]:
        """Runs wherever torch runs."""
        return []

    def reasons(self, problem: Problem) -> list[str]:
        """There is nothing it cannot do."""
        return []

    def steps(self, call: Call) -> Steps:
        """Every intermediate of a call."""
        call = call.read()
        return attend_densely(
            call.query, call.key, call.value, call.mask, call.score, place=call.place
        )

    def attend(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """Dropout falls on the weights that make the output; lse and summaries do not see it."""
        steps = self.steps(call)
        output = steps.output
        if call.dropout > 0:
            kept = torch.nn.functional.dropout(steps.weights, call.dropout)
            output = kept @ steps.values
        return Answers(output.to(call.query.dtype), steps.lse, Known(), self._state(steps))

    def alone(self, call: Call) -> None:
        """By `attend`."""

    def lse(self, call: Call, state: RowState | None = None) -> Tensor:
        """By the definition."""
        return self.steps(call).lse

    def state(
        self, call: Call, along: tuple[Summary, ...] = (), known: Known | None = None
    ) -> RowState:
        """The lse, as the one number it is here."""
        return self._state(self.steps(call))

    def _state(self, steps: Steps) -> RowState:
        return RowState(steps.lse.detach(), torch.zeros_like(steps.lse))

    def measure(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
    ) -> dict[Summary, Any]:
        """By definition, from the steps computed again, so that autograd sees them."""
        steps = self.steps(call)
        return {summary: summary.define(steps, call.shape) for summary in summaries}

    def block(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores of some heads."""
        steps = self.steps(call)
        full = steps.weights if what == "weights" else steps.masked
        return full.flatten(0, -3)[place.units][:, place.rows][:, :, place.cols]

    def apply(self, call: Call, state: RowState, x: Tensor) -> Tensor:
        """A @ x for x (*batch, Hq, S, M)."""
        weights = self.steps(call).weights
        return weights @ x.to(weights.dtype)

    def apply_transposed(self, call: Call, state: RowState, y: Tensor) -> Tensor:
        """Aᵀ @ y for y (*batch, Hq, L, M)."""
        weights = self.steps(call).weights
        return weights.mT @ y.to(weights.dtype)


DENSE = Dense()
