"""Attention over DTensors: every rank computes its share, results are DTensors again.

`layout` says what each axis of the mesh splits, `narrow` how masks and score rules look from one
rank's share, `sharded` is the implementation. Nothing here is imported before a DTensor is seen.

Calls are split, not operators. torch's `register_sharding` gives every rank the same operator with
the same text, where a causal mask over some of the queries needs the rank's own place in it; and
it has one placement for all tensors of a list, where mass is a sum and the rest is split.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from regard.engine.backends.dtensor.sharded import Sharded

__all__ = ["for_dtensors", "placed_like"]

_HOME = "torch.distributed.tensor"


def for_dtensors(implementation: str | None, *tensors: Tensor) -> Sharded | None:
    """The implementation that serves DTensors; None where none of the tensors is one."""
    if not any(_is_dtensor(tensor) for tensor in tensors):
        return None
    from regard.engine.backends.dtensor.sharded import Sharded

    return Sharded(implementation)


def placed_like(array: Tensor, query: Tensor) -> Tensor:
    """The array; where the query is a DTensor and this is none, every rank is taken to have the
    same one."""
    if not _is_dtensor(query) or _is_dtensor(array):
        return array
    from torch.distributed.tensor import DTensor, Replicate

    mesh = query.device_mesh  # type: ignore[attr-defined]
    return DTensor.from_local(array, mesh, [Replicate()] * mesh.ndim, run_check=False)


def _is_dtensor(tensor: Tensor) -> bool:
    if type(tensor) is Tensor:  # nearly always, and the quickest to know
        return False
    home: Any = sys.modules.get(_HOME)
    return home is not None and isinstance(tensor, home.DTensor)
