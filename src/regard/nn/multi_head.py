"""Multi-head attention: several views at once, concatenated and mixed by w_o."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.engine.api import attend
from regard.engine.attention import Attention
from regard.errors import InputError
from regard.mask import Mask
from regard.nn.cache import Cache, ContextCache
from regard.nn.decode import is_unasked, next_token, sees_everything
from regard.nn.inputs import check_input
from regard.nn.prefix import SharedPrefix, sees_prefix
from regard.nn.rotary import Rotary, Turn
from regard.nn.steps import LayerSteps, names_of, take_steps
from regard.score import Bias


class MultiHeadAttention(nn.Module):
    """x (…, tokens, embed_dim) → (…, tokens, out_dim); with `context`, cross-attention.

    kv_heads      key and value heads, each shared by a group of query heads; num_heads by default
    head_dim      of queries and keys, per head; embed_dim ÷ num_heads by default
    value_dim     of values, per head; head_dim by default
    context_dim   width of `context`, or of (keys' context, values' context); embed_dim by default
    rotary        a `regard.nn.Rotary`, applied to queries and keys
    qk_norm       RMS-normalise queries and keys per head, which bounds the scores
    norm_eps      what that adds below the root; the dtype's own epsilon by default

    Tensors are batch first; a layer made by `from_torch` keeps the original's order.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        out_dim: int | None = None,
        context_dim: int | tuple[int, int] | None = None,
        bias: bool = True,
        rotary: Rotary | None = None,
        dropout: float = 0.0,
        qk_norm: bool = False,
        norm_eps: float | None = None,
    ) -> None:
        super().__init__()
        kv_heads = num_heads if kv_heads is None else kv_heads
        _check_heads(embed_dim, num_heads, kv_heads, head_dim)
        self.head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.value_dim = self.head_dim if value_dim is None else value_dim
        _check_rotary(rotary, self.head_dim)
        out_dim = embed_dim if out_dim is None else out_dim
        context_dim = embed_dim if context_dim is None else context_dim
        widths = (context_dim, context_dim) if isinstance(context_dim, int) else context_dim
        self.w_q = nn.Linear(embed_dim, num_heads * self.head_dim, bias=bias)
        self.w_k = nn.Linear(widths[0], kv_heads * self.head_dim, bias=bias)
        self.w_v = nn.Linear(widths[1], kv_heads * self.value_dim, bias=bias)
        self.w_o = nn.Linear(num_heads * self.value_dim, out_dim, bias=bias)
        self.norm_q = nn.RMSNorm(self.head_dim, norm_eps) if qk_norm else None
        self.norm_k = nn.RMSNorm(self.head_dim, norm_eps) if qk_norm else None
        self.rotary = rotary
        self.dropout = dropout
        self.batch_first = True
        self.sink: Tensor | None
        self.register_buffer("sink", None)

    def forward(
        self,
        x: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
        bias: Tensor | Bias | None = None,
        turn: Turn | None = None,
    ) -> Tensor:
        """(…, tokens, embed_dim) → (…, tokens, out_dim).

        mask, bias  as in `regard.attend`
        cache       the tokens before x; theirs come first among the keys
        turn        the rotary turn of x, where a model has made it for all its layers
        """
        query, key, value = self._project(x, context, cache, turn)
        heads = self._output(query, key, value, mask, cache, bias)  # (…, H, tokens, value_dim)
        mixed: Tensor = self.w_o(heads.transpose(-3, -2).flatten(-2))
        return mixed if self._ordered(x) else mixed.transpose(0, 1)

    def look(
        self,
        x: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
        turn: Turn | None = None,
        tokens: Any = None,
        **options: Any,
    ) -> Attention:
        """The attention before w_o, for rows and statistics; options go to `regard.attend`.
        `tokens` are the words it is printed with, as in `steps`."""
        query, key, value = self._project(x, context, cache, turn)
        keys, values = (key, value) if cache is None else cache.extended(key, value)
        found = self._attend(query, keys, values, mask, **options)
        if tokens is not None:
            same = context is None and cache is None
            found.tokens = names_of(tokens, *found.shape[-2 : -1 if same else None])
        if cache is not None:  # only now, so that a refused call can be made again
            cache.keep_after(keys, values, found)
        return found

    def steps(
        self,
        x: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None = None,
        *,
        tokens: Any = None,
        mask: Mask | Tensor | None = None,
        bias: Tensor | Bias | None = None,
        turn: Turn | None = None,
        row: int | str | None = None,
    ) -> LayerSteps:
        """Every step of every head by name, as matrices; printed, the lesson for these weights.

        tokens  the words of x; with `context`, two lists: the words of x and those of the context
        row     the token whose row is worked through, by place or word
        """
        query, key, value = self._project(x, context, None, turn)
        sink = None if self.sink is None else self.sink.expand(query.shape[-3])
        steps = take_steps(query, key, value, mask, bias, sink)
        mixed = self.w_o(steps.output.to(value.dtype).transpose(-3, -2).flatten(-2))
        given = x if context is None else context
        sources = given if isinstance(given, tuple) else (given, given)
        return LayerSteps(
            **(vars(steps) | {"output": mixed if self._ordered(x) else mixed.transpose(0, 1)}),
            layer=self, x=x, sources=sources, head_outputs=steps.output,
            projected=(
                self._heads(self.w_q, x, self.head_dim, "x"),
                self._heads(self.w_k, sources[0], self.head_dim, "context"),
            ),
            tokens=names_of(
                tokens, query.shape[-2], None if context is None else key.shape[-2]
            ),
            row=row,
        )  # fmt: skip

    def _project(
        self,
        x: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None,
        cache: Cache | None,
        turn: Turn | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v of the given tokens, normalised and turned: (…, heads, tokens, width)."""
        query = self._heads(self.w_q, x, self.head_dim, "x")
        query = query if self.norm_q is None else self.norm_q(query)
        if isinstance(cache, ContextCache):
            self._check_unturned()
            if cache.held is not None:
                return query.to(cache.held[1].dtype), *cache.held
        given = x if context is None else context
        for_keys, for_values = given if isinstance(given, tuple) else (given, given)
        source = "x" if context is None else "context"
        key = self._heads(self.w_k, for_keys, self.head_dim, source)
        key = key if self.norm_k is None else self.norm_k(key)
        value = self._heads(self.w_v, for_values, self.value_dim, source)
        # autocast normalises in single precision; q, k and v go on in one
        query, key = query.to(value.dtype), key.to(value.dtype)
        if turn is not None:
            return turn.apply(query), turn.apply(key), value
        if self.rotary is not None:
            start = 0 if cache is None else cache.length
            query, key = self.rotary(query, start), self.rotary(key, start)
        return query, key, value

    def _output(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | Tensor | None,
        cache: Cache | None,
        bias: Tensor | Bias | None,
    ) -> Tensor:
        """What `_attend` gives, by a shorter way where nobody asks about it."""
        plain = bias is None and self.sink is None and not (self.dropout and self.training)
        if plain and isinstance(cache, SharedPrefix) and sees_prefix(mask) and is_unasked():
            return cache.attend(query, key, value, mask)
        keys, values = (key, value) if cache is None else cache.extended(key, value)
        asks = cache is not None and cache.asks
        whole = plain and not asks and sees_everything(mask, query, keys)
        if whole and is_unasked(query, keys, values):
            found = next_token(query, keys, values)
            if cache is not None:
                cache.keep(keys, values)
            return found
        attention = self._attend(query, keys, values, mask, bias=bias)
        if cache is not None:
            cache.keep_after(keys, values, attention)
        return attention.output

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | Tensor | None,
        **options: Any,
    ) -> Attention:
        dropout = self.dropout if self.training else 0.0
        sink = None if self.sink is None else self.sink.expand(query.shape[-3])
        return attend(query, key, value, mask=mask, sink=sink, dropout=dropout, **options)

    def _check_unturned(self) -> None:
        if self.rotary is not None:
            raise InputError(
                "a turn tells distances within one text, and nothing across two; make the layer "
                "of a ContextCache without rotary"
            )

    def _ordered(self, x: Tensor) -> bool:
        """Whether x is already (batch, tokens, width); without a batch it always is."""
        return self.batch_first or x.ndim == 2

    def _heads(self, project: nn.Linear, x: Tensor, width: int, name: str) -> Tensor:
        """(…, tokens, embed) → (…, heads, tokens, width). The number of heads is whatever the
        projection holds, so that a tensor-parallel shard of it works unchanged."""
        check_input(x, project, name)
        x = x if self._ordered(x) else x.transpose(0, 1)
        return project(x).unflatten(-1, (-1, width)).transpose(-3, -2)

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> MultiHeadAttention:
        """The same layer with the same weights, in the same order of axes.

        `add_zero_attn` becomes a sink of score 0; `add_bias_kv` has no counterpart.
        """
        if layer.bias_k is not None or layer.bias_v is not None:
            raise InputError(
                "from_torch: the layer was made with add_bias_kv=True, which appends a learned "
                "key and value; regard has no such thing. Make it with add_bias_kv=False"
            )
        bias = layer.in_proj_bias is not None
        twin = cls(
            layer.embed_dim, layer.num_heads, context_dim=(layer.kdim, layer.vdim), bias=bias,
            dropout=layer.dropout,
        ).to(layer.out_proj.weight)  # fmt: skip
        with torch.no_grad():
            for linear, weight in zip(twin._inputs(), _weights(layer), strict=True):
                linear.weight.copy_(weight)
            twin.w_o.weight.copy_(layer.out_proj.weight)
            if bias:
                for linear, b in zip(twin._inputs(), layer.in_proj_bias.chunk(3), strict=True):
                    linear.bias.copy_(b)
                twin.w_o.bias.copy_(layer.out_proj.bias)
        twin.batch_first = layer.batch_first
        if layer.add_zero_attn:
            twin.register_buffer("sink", torch.zeros(1).to(layer.out_proj.weight))
        twin.requires_grad_(any(p.requires_grad for p in layer.parameters()))  # frozen stays so
        return twin.train(layer.training)

    def _inputs(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.w_q, self.w_k, self.w_v


def _weights(layer: nn.MultiheadAttention) -> tuple[Tensor, ...]:
    """w_q, w_k, w_v: one stacked matrix, or three where the widths differ."""
    if layer.in_proj_weight is not None:
        return layer.in_proj_weight.chunk(3)
    return layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight


def _check_rotary(rotary: Rotary | None, head_dim: int) -> None:
    if rotary is not None and rotary.dim != head_dim:
        raise InputError(
            f"rotary turns {rotary.dim} dimensions, a head has {head_dim}; give Rotary({head_dim})"
        )


def _check_heads(embed_dim: int, num_heads: int, kv_heads: int, head_dim: int | None) -> None:
    if num_heads < 1 or kv_heads < 1 or num_heads % kv_heads:
        raise InputError(
            f"num_heads={num_heads}, kv_heads={kv_heads}: give at least one of each, and "
            "num_heads a multiple of kv_heads"
        )
    if head_dim is None and embed_dim % num_heads:
        raise InputError(
            f"embed_dim={embed_dim} is not divisible by num_heads={num_heads}; give head_dim"
        )
