"""Several tensors as one message of bytes, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

__all__ = ["pack", "size_of", "unpack"]


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """(n,) uint8: the tensors' bytes, one after the other."""
    return torch.cat([_bytes(tensor.detach().contiguous()) for tensor in tensors])


def size_of(kinds: Sequence[torch.dtype], shapes: Sequence[Sequence[int]]) -> int:
    """How many bytes tensors of these dtypes and shapes have."""
    return sum(prod(shape) * kind.itemsize for kind, shape in zip(kinds, shapes, strict=True))


def unpack(
    message: Tensor,
    kinds: Sequence[torch.dtype],
    shapes: Sequence[Sequence[int]],
    start: int = 0,
) -> list[Tensor]:
    """The tensors of these dtypes and shapes that stand in a message from byte `start`."""
    found = []
    for kind, shape in zip(kinds, shapes, strict=True):
        part = message.narrow(0, start, size_of([kind], [shape]))
        # a number cannot begin anywhere
        whole = part if start % kind.itemsize == 0 else part.clone()
        found.append(whole.view(kind).view(tuple(shape)))
        start += len(part)
    return found


def _bytes(tensor: Tensor) -> Tensor:
    # a tensor of one number is contiguous whatever its stride; bytes want a stride of one
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
