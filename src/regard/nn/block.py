"""One layer of a deep network: attention between tokens, then a step for each token by itself.

pre-norm    x + f(norm(x))      a straight way for gradients; the stack ends with a norm
post-norm   norm(x + f(x))      as first published
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.mask import Mask
from regard.nn.cache import Cache, ContextCache
from regard.nn.config import BlockConfig
from regard.nn.feed_forward import MLP, SwiGLU
from regard.nn.inputs import check_input
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.norm import make_norm
from regard.nn.rotary import Rotary, Turn
from regard.nn.steps import BlockStages, BlockSteps
from regard.score import Bias


class EncoderBlock(nn.Module):
    """x (…, tokens, dim) → the same shape; the mask says which token may see which."""

    def __init__(self, config: BlockConfig, *, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.norm_attention = make_norm(config.norm, config.dim, config.norm_eps)
        self.attention = _attention(config, rotary)
        self.norm_feed_forward = make_norm(config.norm, config.dim, config.norm_eps)
        self.feed_forward = _feed_forward(config)
        self.dropout = config.dropout

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | Bias | None = None,
        turn: Turn | None = None,
    ) -> Tensor:
        """x after attention and after the feed-forward layer, each with its residual."""
        check_input(x, self.attention.w_q, "x")
        x = self._add(
            x, self.norm_attention, lambda y: self.attention(y, mask=mask, bias=bias, turn=turn)
        )
        return self._add(x, self.norm_feed_forward, self.feed_forward)

    def steps(
        self,
        x: Tensor,
        *,
        tokens: Sequence[str] | None = None,
        mask: Mask | Tensor | None = None,
        bias: Tensor | Bias | None = None,
        turn: Turn | None = None,
        row: int | str | None = None,
    ) -> BlockSteps:
        """Every step by name, those of the attention among them; printed, the lesson for this
        block's own weights. Arguments are those of `MultiHeadAttention.steps`."""
        check_input(x, self.attention.w_q, "x")
        stages = BlockStages(x, self.norm_first)
        attention = stages.attend(
            self.attention, self.norm_attention,
            tokens=tokens, mask=mask, bias=bias, turn=turn, row=row,
        )  # fmt: skip
        stages.feed_forward(self.feed_forward, self.norm_feed_forward)
        return stages.finish(attention)

    def _add(self, x: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor]) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return _residual(x, norm, change, dropout, self.norm_first)


class DecoderBlock(nn.Module):
    """A block with a cache of earlier tokens and, with `cross=True`, cross-attention."""

    def __init__(
        self, config: BlockConfig, *, cross: bool = False, rotary: Rotary | None = None
    ) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.norm_attention = make_norm(config.norm, config.dim, config.norm_eps)
        self.attention = _attention(config, rotary)
        self.norm_cross: nn.Module | None = None
        self.cross_attention: MultiHeadAttention | None = None
        if cross:
            self.norm_cross = make_norm(config.norm, config.dim, config.norm_eps)
            self.cross_attention = _attention(config, None)
        self.norm_feed_forward = make_norm(config.norm, config.dim, config.norm_eps)
        self.feed_forward = _feed_forward(config)
        self.dropout = config.dropout

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        context_mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
        context_cache: ContextCache | None = None,
        bias: Tensor | Bias | None = None,
        turn: Turn | None = None,
    ) -> Tensor:
        """`context` (…, tokens, dim) is the other sequence, for a block made with cross=True."""
        check_input(x, self.attention.w_q, "x")
        x = self._add(
            x,
            self.norm_attention,
            lambda y: self.attention(y, mask=mask, cache=cache, bias=bias, turn=turn),
        )
        if self.cross_attention is not None and self.norm_cross is not None:
            across = self.cross_attention
            _check_context(context, context_cache)
            x = self._add(
                x,
                self.norm_cross,
                lambda y: across(y, context, mask=context_mask, cache=context_cache),
            )
        elif context is not None:
            raise InputError("this block has no cross-attention; make it with cross=True")
        return self._add(x, self.norm_feed_forward, self.feed_forward)

    def steps(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        tokens: Any = None,
        mask: Mask | Tensor | None = None,
        context_mask: Mask | Tensor | None = None,
        bias: Tensor | Bias | None = None,
        turn: Turn | None = None,
        row: int | str | None = None,
    ) -> BlockSteps:
        """As `EncoderBlock.steps`; with `context`, tokens are two lists: its words come second."""
        check_input(x, self.attention.w_q, "x")
        across = self.cross_attention
        if across is None and context is not None:
            raise InputError("this block has no cross-attention; make it with cross=True")
        own = tokens if across is None or tokens is None else tokens[0]
        stages = BlockStages(x, self.norm_first)
        attention = stages.attend(
            self.attention, self.norm_attention,
            tokens=own, mask=mask, bias=bias, turn=turn, row=row,
        )  # fmt: skip
        cross = None
        if across is not None and self.norm_cross is not None:
            _check_context(context, None)
            cross = stages.attend(
                across, self.norm_cross, context,
                name="cross", tokens=tokens, mask=context_mask, row=row,
            )  # fmt: skip
        stages.feed_forward(self.feed_forward, self.norm_feed_forward)
        return stages.finish(attention, cross)

    def _add(self, x: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor]) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return _residual(x, norm, change, dropout, self.norm_first)


def _residual(
    x: Tensor,
    norm: nn.Module,
    change: Callable[[Tensor], Tensor],
    dropout: float,
    norm_first: bool,
) -> Tensor:
    step = change(norm(x) if norm_first else x)
    changed: Tensor = x + (F.dropout(step, dropout) if dropout else step)
    return changed if norm_first else norm(changed)


def _attention(config: BlockConfig, rotary: Rotary | None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.dim, config.heads, kv_heads=config.key_heads, head_dim=config.width,
        bias=config.attention_bias, rotary=rotary, dropout=config.dropout, qk_norm=config.qk_norm,
        norm_eps=config.norm_eps,
    )  # fmt: skip


def _feed_forward(config: BlockConfig) -> MLP | SwiGLU:
    if config.feed_forward == "swiglu":
        return SwiGLU(config.dim, config.hidden, bias=config.feed_forward_bias)
    kind = config.activation
    return MLP(config.dim, config.hidden, activation=kind, bias=config.feed_forward_bias)


def _check_context(context: Tensor | None, cache: ContextCache | None) -> None:
    if context is None and (cache is None or cache.held is None):
        raise InputError(
            "this block looks at another sequence; give it as context (…, tokens, dim)"
        )
