"""The part of a tensor that is held here: all of it, or a shard (FSDP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["Held", "held_here"]


@dataclass(frozen=True)
class Held:
    """What is here, and how often each of its numbers is held by somebody."""

    local: Tensor
    start: int  # of the local part along the axis asked about
    shards: int  # into how many parts the tensor is cut; each is held by ranks ÷ shards of them


def held_here(tensor: Tensor, axis: int) -> Held | str:
    """The local part; a reason where it cannot be told which part it is."""
    whole: Any = tensor
    if not hasattr(whole, "placements"):
        return Held(tensor, 0, 1)
    mesh, start, shards = whole.device_mesh, 0, 1
    for at, placement in enumerate(whole.placements):
        if placement.is_replicate():
            continue
        if type(placement).__name__ != "Shard" or shards > 1:
            return f"a tensor placed as {whole.placements} is not taken apart here"
        shards = mesh.size(at)
        if placement.dim % tensor.ndim == axis:
            length = -(-tensor.shape[axis] // shards)  # as torch.chunk cuts
            start = min(mesh.get_local_rank(at) * length, tensor.shape[axis])
    return Held(whole.to_local(), start, shards)
