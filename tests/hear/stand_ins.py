"""Packages that do not install without a GPU, with the signatures they have, computed densely.

Each function returns what the package's own documentation says it does, written from that, and
keeps the weights it used, for whoever compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
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
    bias: Tensor | float = 0.0,
) -> Tensor:
    """One sequence: (L, H, D), (S, K, D), (S, K, D); queries end where keys end."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    scores = torch.einsum("lhd,shd->hls", q, k) * (scale or q.shape[-1] ** -0.5) + bias
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
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0)
    WEIGHTS.append(weights.detach())
    return torch.einsum("hls,shd->lhd", weights, v)


# ── flash_attn ─────────────────────────────────────────────────────────────────────────────────


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    rules = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
    every = [None] * len(q) if alibi_slopes is None else alibi_slopes.expand(len(q), -1)
    parts = zip(q, k, v, every, strict=True)
    out = torch.stack([dense(*qkv, slopes=slopes, **rules) for *qkv, slopes in parts])
    return (out, None, None) if return_attn_probs else out


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False, block_table=None,
):  # fmt: skip
    rules = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
    made = []
    for n in range(len(cu_seqlens_q) - 1):
        rows = slice(int(cu_seqlens_q[n]), int(cu_seqlens_q[n + 1]))
        keys = slice(int(cu_seqlens_k[n]), int(cu_seqlens_k[n + 1]))
        mine = [t[keys] for t in (k, v)]
        if block_table is not None:
            count = keys.stop - keys.start
            mine = [t[block_table[n].long()].flatten(0, 1)[:count] for t in (k, v)]
        made.append(dense(q[rows], *mine, slopes=alibi_slopes, **rules))
    return torch.cat(made)


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
    cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
    return_softmax_lse=False,
):  # fmt: skip
    rules = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
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
        pages = [at] if block_table is None else block_table[n].long()
        keys, values = (t[pages].flatten(0, 1)[:count] for t in (k_cache, v_cache))
        made.append(dense(q[n], keys, values, slopes=alibi_slopes, **rules))
    return torch.stack(made)


def flash_3(q, k, v, softmax_scale=None, causal=False, **options):
    """Version 3 has no dropout, and its scale where version 2 has it."""
    return flash_attn_func(q, k, v, 0.0, softmax_scale, causal, **options)


# ── xformers ───────────────────────────────────────────────────────────────────────────────────


class LowerTriangularMask:
    """Queries and keys begin together."""


class LowerTriangularFromBottomRightMask:
    """They end together."""


@dataclass
class LocalAttentionFromBottomRightMask:
    """A window."""

    window_left: int
    window_right: int


class BlockDiagonalMask:
    """Sequences one after the other."""

    def __init__(self, queries: list[int], keys: list[int]) -> None:
        """Where each begins."""
        self.q_seqinfo, self.k_seqinfo = (SimpleNamespace(seqstart_py=s) for s in (queries, keys))


class BlockDiagonalCausalMask(BlockDiagonalMask):
    """Causal inside each, from its beginning."""


class BlockDiagonalCausalFromBottomRightMask(BlockDiagonalMask):
    """Causal inside each, to its end."""


class PagedBlockDiagonalPaddedKeysMask:
    """One that regard does not know."""


def memory_efficient_attention(
    query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None
):
    causal = "Lower" in type(attn_bias).__name__ or "Causal" in type(attn_bias).__name__
    if isinstance(attn_bias, BlockDiagonalMask):
        infos = attn_bias.q_seqinfo, attn_bias.k_seqinfo
        starts = [torch.tensor(info.seqstart_py) for info in infos]
        packed = (t[0] for t in (query, key, value))
        return flash_attn_varlen_func(*packed, *starts, 0, 0, 0.0, scale, causal)[None]
    single = query.ndim == 3
    if single:
        query, key, value = (t.unsqueeze(2) for t in (query, key, value))
    rules: dict[str, Any] = {"start": isinstance(attn_bias, LowerTriangularMask)}
    if isinstance(attn_bias, LocalAttentionFromBottomRightMask):
        rules["window"] = attn_bias.window_left, attn_bias.window_right
    biases = attn_bias if isinstance(attn_bias, Tensor) else [0.0] * len(query)
    out = torch.stack([
        dense(*each, scale=scale, causal=causal, bias=bias, **rules)
        for *each, bias in zip(query, key, value, biases, strict=True)
    ])  # fmt: skip
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
        cu_seqlens_q=None, cu_seqlens_kv=None, attn_mask_type=None, window_size=None, **others,
    ):  # fmt: skip
        layout, kind = qkv_format or self.qkv_format, attn_mask_type or self.attn_mask_type
        window = window_size or self.window_size or (-1, -1)
        rules = {"causal": "causal" in kind, "window": window, "scale": self.softmax_scale}
        if layout == "thd":
            where = (cu_seqlens_q, cu_seqlens_kv, 0, 0, 0.0, self.softmax_scale, "causal" in kind)
            return flash_attn_varlen_func(query_layer, key_layer, value_layer, *where).flatten(-2)
        given = [query_layer, key_layer, value_layer]
        if layout == "sbhd":
            given = [t.transpose(0, 1) for t in given]
        rules["start"] = "bottom_right" not in kind
        made = [torch.zeros_like(sequence) for sequence in given[0]]
        for n, each in enumerate(zip(*given, strict=True)):
            count = len(each[0]) if cu_seqlens_q is None else int(cu_seqlens_q.diff()[n])
            made[n][:count] = dense(*(t[:count] for t in each), **rules)
        out = torch.stack(made).flatten(-2)
        return out.transpose(0, 1) if layout == "sbhd" else out


# ── installed ──────────────────────────────────────────────────────────────────────────────────


_FLASH: dict[str, Callable[..., Any]] = {
    "flash_attn_func": flash_attn_func,
    "flash_attn_varlen_func": flash_attn_varlen_func,
    "flash_attn_with_kvcache": flash_attn_with_kvcache,
    "flash_attn_qkvpacked_func": lambda qkv, *a, **b: flash_attn_func(*qkv.unbind(2), *a, **b),
    "flash_attn_kvpacked_func": lambda q, kv, *a, **b: flash_attn_func(q, *kv.unbind(2), *a, **b),
    "flash_attn_varlen_qkvpacked_func": lambda qkv, starts, most, *a, **b: flash_attn_varlen_func(
        *qkv.unbind(1), starts, starts, most, most, *a, **b
    ),
    "flash_attn_varlen_kvpacked_func": lambda q, kv, *a, **b: flash_attn_varlen_func(
        q, *kv.unbind(1), *a, **b
    ),
}
PACKAGES = {
    "flash_attn": _FLASH,
    "flash_attn.flash_attn_interface": _FLASH,
    "flash_attn_interface": {"flash_attn_func": flash_3},
    "xformers.ops": {"memory_efficient_attention": memory_efficient_attention},
}


@contextmanager
def installed(packages: dict[str, dict[str, Callable[..., Any]]] = PACKAGES) -> Iterator[None]:
    """Within the block, these packages are there."""
    WEIGHTS.clear()
    for home, functions in packages.items():
        sys.modules[home] = ModuleType(home)
        vars(sys.modules[home]).update(functions)
    try:
        yield
    finally:
        for home in packages:
            del sys.modules[home]
