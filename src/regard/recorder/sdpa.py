"""Modules that call torch's own `scaled_dot_product_attention`: seen without being changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.engine.api import replay
from regard.engine.matrix import Attention
from regard.mask import Causal

__all__ = ["SeeTorch"]


class SeeTorch(TorchFunctionMode):
    """Within the block, every call of torch's function is told to `heard`, with its output.

    The output is torch's own, bit for bit; the attention is replayed beside it.
    """

    def __init__(self, heard: Callable[[Attention, Tensor, Tensor], None]) -> None:
        super().__init__()
        self._heard = heard

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Torch's own answer, after a look at what it answers."""
        found = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            with torch.no_grad():
                self._see(found, *args, **(kwargs or {}))
        return found

    def _see(
        self,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        q, k = query.detach(), key.detach()
        mask: Any = Causal(align="start") if is_causal else None
        bias = None
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            mask = attn_mask
        elif attn_mask is not None:
            bias = attn_mask.detach()
        lead = np.broadcast_shapes(q.shape[:-3], k.shape[:-3])
        q, k = (t.expand(*lead, *t.shape[-3:]) for t in (q, k))
        seen = replay(q, k, mask=mask, bias=bias, scale=scale)
        self._heard(seen, output.detach(), value.detach().expand(*lead, *value.shape[-3:]))
