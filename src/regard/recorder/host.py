"""Between a GPU and its host, by way of memory that is kept for such copies.

Fresh pages cost more than the copy itself: torch keeps pinned ones and gives them out again when
the last array over them is gone. From there the GPU copies while its host goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def bring(tensors: Mapping[str, Tensor]) -> Callable[[], dict[str, NDArray[Any]]]:
    """Tensors without gradients as arrays. From a GPU the copies begin now, and whoever calls what
    is returned waits for them; on the host the arrays are the tensors themselves."""
    copies: dict[str, Tensor] = {}
    gpus: set[torch.device] = set()
    for name, tensor in tensors.items():
        device = tensor.device
        if device.type == "cuda":
            gpus.add(device)
            there = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
            copies[name] = there.copy_(tensor.contiguous(), non_blocking=True)
        else:
            copies[name] = tensor if device.type == "cpu" else tensor.cpu()
    # behind the copies, which run in the current stream of the GPU they come from
    done = [torch.cuda.current_stream(gpu).record_event() for gpu in gpus]

    def arrived() -> dict[str, NDArray[Any]]:
        for event in done:
            event.synchronize()
        return {name: copy.numpy() for name, copy in copies.items()}

    return arrived


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A host's tensor on a device; a GPU does not have to stop for it."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
