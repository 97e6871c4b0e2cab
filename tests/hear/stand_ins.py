"""Packages that do not install without a GPU, with the signatures they have, computed densely.

Each function returns what the package's own documentation says it does, written from that, and
keeps the weights it used, for whoever compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

WEIGHTS: list[Tensor] = []  # of every call, (H, L, S) of each of its sequences


def dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    slopes: Tensor | None = None,
    start: bool = False,
) -> Tensor:
    """One sequence: (L, H, D), (S, K, D), (S, K, D); queries end where keys end."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    scores = torch.einsum("lhd,shd->hls", q, k) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    place = torch.arange(len(q))[:, None] + (0 if start else len(k) - len(q))
    ahead = torch.arange(len(k)) - place
    if slopes is not None:
        scores = scores - slopes[:, None, None] * ahead.abs()
    left, right = window[0], 0 if causal else window[1]
    hidden = torch.zeros_like(ahead, dtype=torch.bool)
    if left >= 0:
        hidden |= ahead < -left
    if right >= 0:
        hidden |= ahead > right
    scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    WEIGHTS.append(weights.detach())
    return torch.einsum("hls,shd->lhd", weights, v)


# ── flash_attn 2 ───────────────────────────────────────────────────────────────────────────────


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # type: ignore[no-untyped-def]  # fmt: skip
    rules = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
    out = torch.stack(
        [dense(*one, slopes=alibi_slopes, **rules) for one in zip(q, k, v, strict=True)]
    )
    return (out, None, None) if return_attn_probs else out


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False, block_table=None,
):  # type: ignore[no-untyped-def]  # fmt: skip
    rules = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
    made = []
    for n in range(len(cu_seqlens_q) - 1):
        rows = slice(int(cu_seqlens_q[n]), int(cu_seqlens_q[n + 1]))
        keys = slice(int(cu_seqlens_k[n]), int(cu_seqlens_k[n + 1]))
        if block_table is None:
            mine = k[keys], v[keys]
        else:
            count = keys.stop - keys.start
            mine = tuple(t[block_table[n].long()].flatten(0, 1)[:count] for t in (k, v))
        made.append(dense(q[rows], *mine, slopes=alibi_slopes, **rules))
    return torch.cat(made)


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
    cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
    return_softmax_lse=False,
):  # type: ignore[no-untyped-def]  # fmt: skip
    lengths = torch.as_tensor(cache_seqlens).expand(len(q)).tolist()
    made = []
    for n, before in enumerate(lengths):
        at = n if cache_batch_idx is None else int(cache_batch_idx[n])
        count = before + (0 if k is None else k.shape[1])
        for cache, new in ((k_cache, k), (v_cache, v)):
            for place in range(before, count):
                page, inside = divmod(place, cache.shape[1])
                row = at if block_table is None else int(block_table[n, page])
                cache[row, place if block_table is None else inside] = new[n, place - before]
        if block_table is None:
            keys, values = k_cache[at, :count], v_cache[at, :count]
        else:
            pages = block_table[n].long()
            keys, values = (t[pages].flatten(0, 1)[:count] for t in (k_cache, v_cache))
        rules = {"scale": softmax_scale, "causal": causal, "window": window_size}
        made.append(dense(q[n], keys, values, softcap=softcap, slopes=alibi_slopes, **rules))
    return torch.stack(made)


# ── xformers ───────────────────────────────────────────────────────────────────────────────────


class LowerTriangularMask:
    """Queries and keys begin together."""


class LowerTriangularFromBottomRightMask:
    """They end together."""


@dataclass
class _SeqLenInfo:
    seqstart_py: list[int]


@dataclass
class BlockDiagonalMask:
    """Sequences one after the other."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: _SeqLenInfo

    @classmethod
    def from_seqlens(cls, lengths: list[int]) -> Any:
        """As many queries as keys."""
        starts = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
        return cls(_SeqLenInfo(starts), _SeqLenInfo(starts))


class BlockDiagonalCausalMask(BlockDiagonalMask):
    """Causal inside each."""


class PagedBlockDiagonalPaddedKeysMask:
    """One that regard does not know."""


def memory_efficient_attention(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):  # type: ignore[no-untyped-def]
    if isinstance(attn_bias, BlockDiagonalMask):
        starts = torch.tensor(attn_bias.q_seqinfo.seqstart_py)
        causal = isinstance(attn_bias, BlockDiagonalCausalMask)
        packed = (t[0] for t in (query, key, value))
        return flash_attn_varlen_func(*packed, starts, starts, 0, 0, 0.0, scale, causal)[None]
    single = query.ndim == 3
    if single:
        query, key, value = (t.unsqueeze(2) for t in (query, key, value))
    causal = type(attn_bias).__name__.startswith("LowerTriangular")
    start = isinstance(attn_bias, LowerTriangularMask)
    made = [
        dense(*one, scale=scale, causal=causal, start=start)
        for one in zip(query, key, value, strict=True)
    ]
    out = torch.stack(made)
    return out.squeeze(2) if single else out


# ── Transformer Engine ─────────────────────────────────────────────────────────────────────────


class DotProductAttention(nn.Module):
    """Its core attention."""

    __module__ = "transformer_engine.pytorch.attention"

    def __init__(
        self, num_attention_heads: int, kv_channels: int, qkv_format: str = "sbhd",
        attn_mask_type: str = "causal", window_size: tuple[int, int] | None = None,
        softmax_scale: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.qkv_format, self.attn_mask_type = qkv_format, attn_mask_type
        self.window_size, self.softmax_scale = window_size, softmax_scale

    def forward(
        self, query_layer, key_layer, value_layer, attention_mask=None, qkv_format=None,
        cu_seqlens_q=None, cu_seqlens_kv=None, attn_mask_type=None, window_size=None,
    ):  # type: ignore[no-untyped-def]  # fmt: skip
        layout, kind = qkv_format or self.qkv_format, attn_mask_type or self.attn_mask_type
        window = window_size or self.window_size or (-1, -1)
        rules = {"causal": "causal" in kind, "window": window, "scale": self.softmax_scale}
        if layout == "thd":
            where = (cu_seqlens_q, cu_seqlens_kv, 0, 0, 0.0, self.softmax_scale, "causal" in kind)
            return flash_attn_varlen_func(query_layer, key_layer, value_layer, *where).flatten(-2)
        given = [query_layer, key_layer, value_layer]
        if layout == "sbhd":
            given = [t.transpose(0, 1) for t in given]
        start = "bottom_right" not in kind
        out = torch.stack(
            [dense(*one, start=start, **rules) for one in zip(*given, strict=True)]
        ).flatten(-2)
        return out.transpose(0, 1) if layout == "sbhd" else out


@contextmanager
def installed() -> Iterator[None]:
    """Within the block, these packages are there."""
    here = sys.modules[__name__]
    flash, interface = ModuleType("flash_attn"), ModuleType("flash_attn.flash_attn_interface")
    for name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"):
        setattr(flash, name, getattr(here, name))
        setattr(interface, name, getattr(here, name))
    ops = ModuleType("xformers.ops")
    ops.memory_efficient_attention = memory_efficient_attention  # type: ignore[attr-defined]
    there = {
        "flash_attn": flash, "flash_attn.flash_attn_interface": interface, "xformers.ops": ops,
    }  # fmt: skip
    WEIGHTS.clear()
    sys.modules.update(there)
    try:
        yield
    finally:
        for name in there:
            del sys.modules[name]
