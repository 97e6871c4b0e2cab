"""What every head does to one token's log-probability, to first order: one backward pass.

Each head's output is multiplied by a gate g = 1. With s = log p(target), −∂s/∂g is what the head's
knock-out changes in s, exactly where s is linear in g.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.engine.call import Call
from regard.hear.names import Spot
from regard.intervene.here import Here
from regard.intervene.names import Heads
from regard.intervene.prompts import as_ids
from regard.mask import Mask


class _Gates:
    """An editor: outputs times gates, which keep a gradient."""

    def __init__(self, model: nn.Module) -> None:
        self.here = Here(model, self)
        self.gates: dict[Spot, Tensor] = {}

    def mask(self, call: Call) -> Mask | None:
        """As it is."""
        return call.mask

    def output(self, call: Call, output: Tensor) -> Tensor:
        """output · g, g = 1 for each head."""
        spot = self.here.spot(call)
        self.here.done()
        if spot is None:
            return output
        heads = call.shape.query_heads
        gate = torch.ones(heads, 1, 1, dtype=output.dtype, device=output.device, requires_grad=True)
        self.gates[spot] = gate
        return output * gate


def estimated_effects(
    model: nn.Module, ids: Tensor | Sequence[int], target: int | None = None
) -> dict[str, float]:
    """Label → about how much the knock-out of each head changes log p of the next token `target`,
    by default the likeliest one. Negative: without the head it is less likely."""
    tokens = as_ids(ids, model)
    gates = _Gates(model)
    with gates.here, torch.enable_grad():
        found: Any = model(tokens)
        logs = (found if isinstance(found, Tensor) else found.logits)[0, -1].float().log_softmax(-1)
        chosen = logs[int(logs.argmax()) if target is None else target]
        slopes = torch.autograd.grad(chosen, list(gates.gates.values()))
    return {
        Heads(spot.stack, spot.layer, head).label: -float(value)
        for spot, slope in zip(gates.gates, slopes, strict=True)
        for head, value in enumerate(slope.flatten().tolist())
    }
