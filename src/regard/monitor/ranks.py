"""Several processes that train one model: what one heard becomes what all heard."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.monitor.sample import Seat

__all__ = ["Ranks"]


class Ranks:
    """The ranks of a process group, or this process alone.

    group   None for all ranks where torch.distributed is initialised; False for none but this one
    """

    def __init__(self, group: Any) -> None:
        self._group: Any = group

    @property
    def count(self) -> int:
        """How many there are."""
        if self._group is False or not (dist.is_available() and dist.is_initialized()):
            return 1
        return dist.get_world_size(self._group)

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes."""
        return self.count == 1 or dist.get_rank(self._group) == 0

    def reduce(self, largest: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Over all ranks, in two reductions."""
        if self.count > 1:
            dist.all_reduce(largest, dist.ReduceOp.MAX, group=self._group)
            dist.all_reduce(sums, dist.ReduceOp.SUM, group=self._group)
        return largest, sums

    def agree(self, seats: list[Seat]) -> list[Seat]:
        """The places of all ranks in one order; those known here come as they stand."""
        if self.count == 1:
            return seats
        told: list[Any] = [None] * self.count
        dist.all_gather_object(told, seats, group=self._group)
        merged = {seat.label: seat for one in reversed(told) for seat in one}
        order = dict.fromkeys(seat.label for one in told for seat in one)
        return [merged[label] for label in order]

    def device(self, default: torch.device | None) -> torch.device:
        """Where numbers that are reduced have to be."""
        if default is not None:
            return default
        if self.count > 1 and "nccl" in str(dist.get_backend(self._group)):
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")
