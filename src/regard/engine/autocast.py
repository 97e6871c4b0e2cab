"""The dtype that torch.autocast asks for."""

from __future__ import annotations

import torch
from torch import Tensor

_DEVICES = ("cpu", "cuda", "xpu", "mps")  # that have it
_CAST = (torch.float32, torch.bfloat16, torch.float16)  # float64 is left alone


def in_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Inside torch.autocast, q, k and v take its dtype, as torch's own attention does."""
    kind = tensors[0].device.type if isinstance(tensors[0], Tensor) else "cpu"
    if kind not in _DEVICES or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(t.to(dtype) if isinstance(t, Tensor) and t.dtype in _CAST else t for t in tensors)
