"""Modules that call torch's own `scaled_dot_product_attention`: seen without being changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any
from unittest.mock import patch

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
        if func is F.multi_head_attention_forward:
            return self._projected(func, args, kwargs or {})
        found = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            with torch.no_grad():
                self._see(found, *args, **(kwargs or {}))
        return found

    def _projected(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention, whose inner call no mode gets to see. Where it is asked for its
        weights it calls no function at all: then it is run once more, without."""
        given = signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        if not given.arguments["need_weights"]:
            with self._inside():
                return func(*args, **kwargs)
        found = func(*args, **kwargs)
        again = given.arguments | {"need_weights": False, "training": False}
        with torch.no_grad(), self._inside():
            func(**again)
        return found

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Torch's function, as its own module calls it, is seen."""
        real = F.scaled_dot_product_attention

        def seen(*args: Any, **kwargs: Any) -> Tensor:
            found: Tensor = real(*args, **kwargs)
            with torch.no_grad():
                self._see(found, *args, **kwargs)
            return found

        with patch.object(F, "scaled_dot_product_attention", seen):
            yield

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
