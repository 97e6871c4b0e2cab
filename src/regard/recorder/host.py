"""From a GPU to the host, by way of memory that is kept for such copies.

Fresh pages cost more than the copy itself: torch keeps pinned ones and gives them out again when
the last array over them is gone.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["on_host"]


def on_host(tensor: Tensor) -> Tensor:
    """The same numbers on the host, without a gradient; itself where it is there already."""
    tensor = tensor.detach()
    if tensor.device.type != "cuda":
        return tensor.cpu()
    packed = tensor.contiguous()
    return torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True).copy_(packed)
