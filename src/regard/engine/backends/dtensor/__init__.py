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

import torch
from torch import Tensor

from regard.errors import UnavailableError as _UnavailableError

if TYPE_CHECKING:
    from regard.engine.backends.dtensor.sharded import Sharded

__all__ = ["for_dtensors", "placed_like"]

_HOME = "torch.distributed.tensor"

# older DTensors cannot give gradients back over two axes of a mesh (2.7), pad parts that are empty
# along another axis, or merge parts of attention (2.9)
_OLDEST = (2, 11)
_IS_TOO_OLD = tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST


def for_dtensors(implementation: str | None, *tensors: Tensor) -> Sharded | None:
    """The implementation that serves DTensors; None where none of the tensors is one."""
    if not any(_is_dtensor(tensor) for tensor in tensors):
        return None
    if _IS_TOO_OLD:
        raise _UnavailableError(
            f"attention over DTensors needs torch 2.11 or newer, and {torch.__version__} is "
            "installed; attention over their local parts or their full_tensor() needs no DTensors"
        )
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
