"""How large the gradients of w_q and w_k are, head by head."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.monitor.projections import Projection
from regard.monitor.shards import held_here

__all__ = ["squares_of_gradient"]

_LATE = "there was no gradient when the step was closed; call step() before zero_grad()"


def squares_of_gradient(projection: Projection, ranks: int) -> Tensor | str:
    """(heads,) on the gradient's device: this rank's share of the sum of squares, such that all
    ranks' shares add up to it. A reason where it is not known."""
    if not projection.weight.requires_grad:
        return "the projection is frozen"
    gradient = projection.weight.grad
    if gradient is None:
        return _LATE
    held = held_here(gradient.detach(), projection.axis)
    if isinstance(held, str):
        return held
    local = held.local if projection.axis == 0 else held.local.T
    exact = torch.float32 if local.device.type == "mps" else torch.float64
    rows = torch.linalg.vector_norm(local, dim=-1, dtype=torch.float32).to(exact).square()
    owner = projection.owner.to(rows.device)[held.start : held.start + rows.shape[0]]
    found = rows.new_zeros(projection.heads + 1)  # the last takes what belongs to no head
    found.index_add_(0, owner.where(owner >= 0, projection.heads), rows)
    return found[: projection.heads] * (held.shards / ranks)
