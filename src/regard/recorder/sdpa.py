"""Modules that call torch's own `scaled_dot_product_attention`: seen without being changed.

Attention that is computed by other means is noticed: functions whose name says so (FlexAttention,
flash-attn's operators), and a softmax whose result is multiplied with something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from types import FrameType
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.engine.api import replay
from regard.engine.attention import Attention
from regard.mask import Causal


class TorchIntercept(TorchFunctionMode):
    """Within the block, `heard` gets every call of torch's function, with its output; `missed` is
    called where attention is computed otherwise.

    The output is torch's own, bit for bit; the attention is replayed beside it.
    """

    def __init__(
        self,
        heard: Callable[[Attention, Tensor, Tensor], None],
        missed: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._heard, self._missed = heard, missed
        self._weights: tuple[int, ...] = ()  # the shape of the last softmax

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Torch's own answer, after a look at what it answers."""
        given = kwargs or {}
        # nearly every function is none of ours, and a small model spends its time here
        if torch.compiler.is_compiling() or (kind := _kind(func)) is None:
            return func(*args, **given)
        if kind == "projected":
            return self._projected(func, args, given)
        found = func(*args, **given)
        if kind == "torch":
            with torch.no_grad():
                self._see(found, *args, **given)
        elif self._missed is not None:
            self._notice(kind, args, found)
        return found

    def _notice(self, kind: _Kind, args: tuple[Any, ...], found: Any) -> None:
        """Attention by other means: a function of that name, or softmax, then a product."""
        if kind == "softmax":
            shape = tuple(getattr(found, "shape", ()))
            square = (
                len(shape) == 2 and shape[0] == shape[1]
            )  # (tokens, tokens); not (rows, classes)
            self._weights = shape if square or len(shape) > 2 else ()
            return
        factors = [tuple(one.shape) for one in _tensors(args)]
        if kind == "product" and (not self._weights or self._weights not in factors):
            return
        self._weights = ()
        if self._missed is not None and not _is_our_own(sys._getframe(2)):
            self._missed()

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


_Kind = Literal["torch", "projected", "softmax", "product", "attention"]
_PRODUCTS = ("matmul", "bmm", "mm", "einsum", "__matmul__", "baddbmm", "tensordot")
_WORDS = ("attention", "attn", "flash_fwd")


@cache
def _kind(func: Any) -> _Kind | None:
    """What a function of torch has to do with attention."""
    if func is F.scaled_dot_product_attention:
        return "torch"
    if func is F.multi_head_attention_forward:
        return "projected"
    name = str(getattr(func, "__name__", ""))
    if name in ("softmax", "_softmax", "_safe_softmax"):
        return "softmax"
    if name in _PRODUCTS:
        return "product"
    return "attention" if any(word in name for word in _WORDS) else None


def _tensors(args: tuple[Any, ...]) -> Iterator[Tensor]:
    for one in args:
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from _tensors(tuple(one))


def _is_our_own(frame: FrameType | None) -> bool:
    """Whether regard itself called torch."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("torch."):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("regard.")
