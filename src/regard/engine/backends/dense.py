"""THE DEFINITION. One line per step, every step by name; clarity over speed, N×N memory.

    query (…, Hq, L, D)   key (…, Hkv, S, D)   value (…, Hkv, S, Dv)

Everything else in this package is a faster way to compute what this page says, and is tested
against it. Plain torch operations, so autograd gives every derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.engine.call import Answers, Call, Known, Place, Problem, RowState, What, position_of
from regard.mask import Mask
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.summary import Summary


@dataclass(frozen=True)
class Steps:
    """Every intermediate, in the order it is computed."""

    queries: Tensor  # (…, Hq, L, D)
    keys: Tensor  # (…, Hq, S, D)   each key head repeated for its group of query heads
    values: Tensor  # (…, Hq, S, Dv)
    scores: Tensor  # (…, Hq, L, S)  q·k
    scaled: Tensor  # × scale
    capped: Tensor  # cap·tanh(·/cap)
    biased: Tensor  # + bias
    visible: Tensor  # booleans: the mask allows it and the bias is not −∞
    masked: Tensor  # −∞ where not visible: the final scores
    lse: Tensor  # (…, Hq, L)     log Σ exp(masked), with the sink as one more key
    weights: Tensor  # (…, Hq, L, S)  exp(masked − lse); rows sum to 1 less the sink's share
    sink: Tensor  # (…, Hq, L)     the share of the sink, a key whose value is zero; 0 without one
    context: Tensor  # (…, Hq, L, Dv) weights @ values
    position: int | Tensor  # query i stands at key i + position, where distances are measured


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
    i, j = (torch.arange(n, device=query.device) for n in (shape.queries, shape.keys))
    position = position_of(mask, shape, place, query.device)

    queries = query.to(exact)
    keys = key.to(exact).repeat_interleave(shape.group, dim=-3)
    values = value.to(exact).repeat_interleave(shape.group, dim=-3)
    scores = score.product(queries, keys)
    scaled = scores * score.scale
    capped = score.cap(scaled)
    bias = 0.0 if score.bias is None else score.bias.tile(i, j, shape.extent).to(exact)
    biased = capped + bias
    allowed = torch.tensor(True) if mask is None else mask.allows(i, j, shape.extent)
    visible = allowed.to(query.device) & (biased != -torch.inf)
    masked = biased.masked_fill(~visible, -torch.inf)
    lse, shares = softmax(masked, score.sink)
    weights, sink = shares[..., : shape.keys], shares[..., shape.keys :].sum(-1)
    context = weights @ values
    return Steps(
        queries, keys, values, scores, scaled, capped, biased, visible, masked, lse, weights, sink,
        context, position,
    )  # fmt: skip


def softmax(masked: Tensor, sink: Tensor | None) -> tuple[Tensor, Tensor]:
    """lse (…, Hq, L) and shares (…, Hq, L, S), or S + 1 with a sink (Hq,): one more key.
    A row that is −∞ throughout has lse −∞ and shares 0, not NaN, in its derivative as well. A row
    with a score of +∞ has no softmax: its shares and its lse are NaN."""
    if sink is not None:
        masked = torch.cat([masked, sink[:, None, None].expand(*masked.shape[:-1], 1)], dim=-1)
    if masked.shape[-1] == 0:
        return masked.new_full(masked.shape[:-1], -torch.inf), masked
    empty = (masked == -torch.inf).all(-1, keepdim=True)
    filled = masked.masked_fill(empty, 0.0)
    lse = filled.logsumexp(-1).masked_fill(empty.squeeze(-1), -torch.inf)
    lse = lse.masked_fill(lse == torch.inf, torch.nan)
    return lse, filled.softmax(-1).masked_fill(empty, 0.0)


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
        output = steps.context
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
