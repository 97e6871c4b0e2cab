"""Attention functions of other packages, each read as one call of ours.

A reader has the arguments of the function it reads, behind what the function returned, and says
what was computed: q, k, v and the output as (batch, heads, tokens, dim), who may see whom, how
scores are made. It raises `UnreadableError` where that cannot be said exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.hear.packing import (
    HeardCall,
    UnreadableError,
    at_the_end,
    gathered,
    read_by,
    rows_of,
)
from regard.mask import Causal, Mask, Packed, Padding, Table, Window
from regard.score import ALiBi, Bias, PackedBias

Reader = Callable[..., HeardCall]


# ── flash-attn ─────────────────────────────────────────────────────────────────────────────────


def flash_attn_func(
    found: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    **others: Any,
) -> HeardCall:
    """(B, L, H, D) each; queries end where keys end."""
    _refuse(others)
    return HeardCall(
        query=q.transpose(1, 2),
        key=k.transpose(1, 2),
        value=v.transpose(1, 2),
        output=_first(found).transpose(1, 2),
        mask=_window(window_size, causal),
        scale=softmax_scale,
        softcap=softcap or None,
        bias=_alibi(alibi_slopes),
    )


def _flash_qkv(found: Any, qkv: Tensor, *args: Any, **kwargs: Any) -> HeardCall:
    """(B, L, 3, H, D)."""
    q, k, v = qkv.unbind(2)
    return read_by(flash_attn_func, found, q, k, v, *args, **kwargs)


def _flash_kv(found: Any, q: Tensor, kv: Tensor, *args: Any, **kwargs: Any) -> HeardCall:
    k, v = kv.unbind(2)
    return read_by(flash_attn_func, found, q, k, v, *args, **kwargs)


def flash_attn_varlen_func(
    found: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
    seqused_k: Tensor | None = None,
    **others: Any,
) -> HeardCall:
    """(tokens, H, D) each, sequences one after the other; keys in pages (pages, size, H, D)."""
    _refuse(others)
    if block_table is not None:
        lengths = cu_seqlens_k.diff() if seqused_k is None else seqused_k
        k, v = (gathered(t, block_table, lengths) for t in (k, v))
        cu_seqlens_k = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    elif seqused_k is not None:
        raise UnreadableError("seqused_k leaves keys between sequences")
    return _packed(
        found, q, k, v, cu_seqlens_q, cu_seqlens_k, window_size, causal,
        scale=softmax_scale, softcap=softcap or None, bias=_alibi(alibi_slopes),
    )  # fmt: skip


def _flash_varlen_qkv(
    found: Any, qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, *args: Any, **kwargs: Any
) -> HeardCall:
    """(tokens, 3, H, D)."""
    q, k, v = qkv.unbind(1)
    where = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    return read_by(flash_attn_varlen_func, found, q, k, v, *where, *args, **kwargs)


def _flash_varlen_kv(found: Any, q: Tensor, kv: Tensor, *args: Any, **kwargs: Any) -> HeardCall:
    k, v = kv.unbind(1)
    return read_by(flash_attn_varlen_func, found, q, k, v, *args, **kwargs)


def flash_attn_with_kvcache(
    found: Any,
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    **others: Any,
) -> HeardCall:
    """q (B, L, H, D); the cache (B, room, H, D) holds the new keys already, the call is done."""
    _refuse(others)
    if rotary_cos is not None:
        raise UnreadableError("queries are rotated inside flash_attn_with_kvcache")
    if cache_leftpad is not None:
        raise UnreadableError("cache_leftpad leaves room before the keys")
    batch, count = q.shape[:2]
    room = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    new = 0 if k is None else k.shape[1]
    before = room - new if cache_seqlens is None else cache_seqlens
    lengths = torch.as_tensor(before, device=q.device).expand(batch) + new
    if block_table is not None:
        keys, values = (rows_of(t, block_table, lengths) for t in (k_cache, v_cache))
    else:
        mine = slice(batch) if cache_batch_idx is None else cache_batch_idx.long()
        most = int(lengths.max())
        keys, values = (t[mine][:, :most] for t in (k_cache, v_cache))
    return HeardCall(
        query=q.transpose(1, 2),
        key=keys.transpose(1, 2),
        value=values.transpose(1, 2),
        output=_first(found).transpose(1, 2),
        mask=at_the_end(lengths, count, keys.shape[1], _window(window_size, causal)),
        scale=softmax_scale,
        softcap=softcap or None,
        bias=_alibi(alibi_slopes),
    )


def _hopper(reader: Reader) -> Reader:
    """flash-attn 3 has no dropout, and its scale where version 2 has it."""

    count = 7 if reader is flash_attn_varlen_func else 3
    names = () if reader is flash_attn_varlen_func else ("softmax_scale", "causal")

    def read(found: Any, *args: Any, **kwargs: Any) -> HeardCall:
        if len(args) > count + len(names):
            raise UnreadableError(f"it was called with {len(args)} arguments by position")
        named = dict(zip(names, args[count:], strict=False))
        return read_by(reader, found, *args[:count], **named, **kwargs)

    return read


# ── xformers ───────────────────────────────────────────────────────────────────────────────────


def memory_efficient_attention(
    found: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Any = None,
    p: float = 0.0,
    scale: float | None = None,
    op: Any = None,
    output_dtype: Any = None,
) -> HeardCall:
    """(B, L, H, D), or (B, L, D) for one head, or (B, L, G, H, D) for heads in groups."""

    def heads_first(t: Tensor) -> Tensor:
        t = t.unsqueeze(2) if t.ndim == 3 else t
        return t.flatten(2, 3).transpose(1, 2) if t.ndim == 5 else t.transpose(1, 2)

    q, k, v, output = map(heads_first, (query, key, value, _first(found)))
    if isinstance(attn_bias, Tensor):
        bias = attn_bias.unsqueeze(1) if query.ndim == 3 else attn_bias
        bias = bias.flatten(1, 2) if bias.ndim == 5 else bias
        rules: dict[str, Any] = {"bias": bias}
    else:
        rules = {} if attn_bias is None else _xformers_rules(attn_bias, q, k)
    return HeardCall(query=q, key=k, value=v, output=output, scale=scale, **rules)


_BLOCKS = ("BlockDiagonalMask", "BlockDiagonalCausalMask", "BlockDiagonalCausalFromBottomRightMask")


def _xformers_rules(given: Any, q: Tensor, k: Tensor) -> dict[str, Any]:
    """One of the masks that xformers declares, by what it is called."""
    name = type(given).__name__
    plain: dict[str, Mask] = {
        "LowerTriangularMask": Causal("start"),
        "LowerTriangularFromBottomRightMask": Causal("end"),
    }
    if name in plain:
        return {"mask": plain[name]}
    if name == "LocalAttentionFromBottomRightMask":
        return {"mask": Window(given.window_left, given.window_right, "end")}
    if name in _BLOCKS:
        of_q, of_k = (torch.tensor(one.seqstart_py) for one in (given.q_seqinfo, given.k_seqinfo))
        if name == "BlockDiagonalCausalMask" and not torch.equal(of_q, of_k):
            raise UnreadableError(f"{name} over as many queries as keys only")
        within = None if name == "BlockDiagonalMask" else Causal("end")
        of_q, of_k = of_q.to(q.device), of_k.to(q.device)
        return {"mask": Packed(of_q, of_k, within), "starts": of_q, "within": within}
    raise UnreadableError(f"its attn_bias is a {name}")


# ── torch ──────────────────────────────────────────────────────────────────────────────────────


def varlen_attn(
    found: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> HeardCall:
    """(tokens, H, D) each; before torch 2.11 with `is_causal`, since then by the window alone."""
    starts = cu_seq_q if cu_seq_k is None else cu_seq_k
    return flash_attn_varlen_func(
        found, query, key, value, cu_seq_q, starts, max_q, max_k,
        softmax_scale=scale, causal=is_causal, window_size=window_size,
        block_table=block_table, seqused_k=seqused_k,
    )  # fmt: skip


# ── Transformer Engine ─────────────────────────────────────────────────────────────────────────


def dot_product_attention(
    module: Any,
    found: Any,
    query_layer: Tensor,
    key_layer: Tensor,
    value_layer: Tensor,
    attention_mask: Any = None,
    qkv_format: str | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_kv: Tensor | None = None,
    cu_seqlens_q_padded: Tensor | None = None,
    cu_seqlens_kv_padded: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_kv: int | None = None,
    attn_mask_type: str | None = None,
    window_size: tuple[int, int] | None = None,
    checkpoint_core_attention: bool = False,
    core_attention_bias_type: str = "no_bias",
    core_attention_bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    fast_zero_fill: bool = True,
    inference_params: Any = None,
    pad_between_seqs: bool | None = None,
    **others: Any,
) -> HeardCall:
    """A module `DotProductAttention`: (L, B, H, D), (B, L, H, D) or (tokens, H, D); the output has
    its heads together. A mask is True where nobody may look."""
    layout = qkv_format or module.qkv_format
    kind = attn_mask_type or module.attn_mask_type
    window = window_size or getattr(module, "window_size", None) or (-1, -1)
    scale = getattr(module, "softmax_scale", None)
    _refuse({"inference_params": inference_params, "pad_between_seqs": pad_between_seqs, **others})
    if getattr(module, "softmax_type", "vanilla") != "vanilla":
        raise UnreadableError(f"softmax_type={module.softmax_type!r}")
    heads = query_layer.shape[-2]
    output = _first(found)
    output = output.reshape(*output.shape[:-1], heads, -1)
    causal = "causal" in kind
    ends = "bottom_right" in kind
    if core_attention_bias_type not in ("no_bias", "post_scale_bias", "alibi"):
        raise UnreadableError(f"core_attention_bias_type={core_attention_bias_type!r}")
    bias: Any = core_attention_bias
    if core_attention_bias_type == "alibi":
        if alibi_slopes is None:
            raise UnreadableError("ALiBi by slopes of Transformer Engine's own")
        bias = _alibi(alibi_slopes)
    if layout == "thd":
        if cu_seqlens_q is None or cu_seqlens_kv is None or cu_seqlens_q_padded is not None:
            raise UnreadableError("packed sequences with padding between them")
        if causal and not ends and not torch.equal(cu_seqlens_q, cu_seqlens_kv):
            raise UnreadableError("packed sequences whose queries and keys begin together")
        return _packed(
            output, query_layer, key_layer, value_layer, cu_seqlens_q, cu_seqlens_kv, window,
            causal, scale=scale, bias=bias,
        )  # fmt: skip
    if layout not in ("sbhd", "bshd"):
        raise UnreadableError(f"qkv_format={layout!r}")
    first = (1, 2, 0, 3) if layout == "sbhd" else (0, 2, 1, 3)
    q, k, v, out = (t.permute(first) for t in (query_layer, key_layer, value_layer, output))
    mask: Any = _window(window, causal, "end" if ends else "start")
    if "padding" in kind and ends and q.shape[2] != k.shape[2]:
        raise UnreadableError(f"attn_mask_type={kind!r} over fewer queries than keys")
    if "padding" in kind or kind == "arbitrary":
        mask = _meet(mask, _not_hidden(attention_mask, cu_seqlens_q, cu_seqlens_kv))
    return HeardCall(query=q, key=k, value=v, output=out, mask=mask, scale=scale, bias=bias)


def _not_hidden(given: Any, starts_q: Tensor | None, starts_k: Tensor | None) -> Mask:
    """(B, 1, 1, S) of keys, or a pair of queries and keys, or (…, L, S); True is hidden. Without
    one, sequences are as long as their starts say."""
    if given is None:
        if starts_q is None or starts_k is None:
            raise UnreadableError("a padding mask without attention_mask or cu_seqlens")
        return Padding(starts_k.diff(), starts_q.diff())
    if isinstance(given, tuple):
        queries, keys = (~one.flatten(1) for one in given)
        return Padding(keys, queries)
    if given.shape[-2] == 1:
        return Padding(~given.flatten(1))
    return Table(~given)


# ── what readers share ─────────────────────────────────────────────────────────────────────────


def _first(found: Any) -> Tensor:
    """The output, where lse and more were asked for too."""
    return found if isinstance(found, Tensor) else found[0]


def _refuse(others: dict[str, Any]) -> None:
    """Arguments that only newer versions have count where they are set."""
    quiet = ("num_splits", "pack_gqa", "sm_margin", "scheduler_metadata", "fp8_output")
    for name, value in others.items():
        is_set = isinstance(value, Tensor) or bool(value)
        if is_set and name not in quiet:
            raise UnreadableError(f"it was called with {name}=")


def _window(size: tuple[int | None, int | None], causal: bool, align: Any = "end") -> Mask | None:
    """Keys to the left and to the right; −1 or None is all of them."""
    left, right = (None if one is None or one < 0 else int(one) for one in size)
    right = 0 if causal else right
    if left is None and right is None:
        return None
    return Causal(align) if left is None and right == 0 else Window(left, right, align)


def _alibi(slopes: Tensor | None) -> Bias | None:
    """One slope a head, the same for all sequences."""
    if slopes is None or slopes.ndim == 1:
        return None if slopes is None else ALiBi(slopes)
    if not bool((slopes == slopes[:1]).all()):
        raise UnreadableError("each sequence has slopes of its own (alibi_slopes)")
    return ALiBi(slopes[0])


def _packed(
    found: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts_q: Tensor,
    starts_k: Tensor,
    window: tuple[int | None, int | None],
    causal: bool,
    **rules: Any,
) -> HeardCall:
    """(tokens, H, D) → (1, H, tokens, D), under a mask that keeps sequences apart."""
    q, k, v, output = (t.transpose(0, 1).unsqueeze(0) for t in (q, k, v, _first(found)))
    if rules.get("bias") is not None:
        rules["bias"] = PackedBias(starts_q, starts_k, rules["bias"])
    within = _window(window, causal)
    same = torch.equal(starts_q, starts_k)
    return HeardCall(
        query=q, key=k, value=v, output=output, starts=starts_q if same else None, within=within,
        mask=Packed(starts_q, starts_k, within), **rules,
    )  # fmt: skip


def _meet(mask: Mask | None, other: Mask | None) -> Mask | None:
    return mask if other is None else other if mask is None else mask & other


# ── all of them ────────────────────────────────────────────────────────────────────────────────


_FLASH: dict[str, Reader] = {
    "flash_attn_func": flash_attn_func,
    "flash_attn_qkvpacked_func": _flash_qkv,
    "flash_attn_kvpacked_func": _flash_kv,
    "flash_attn_varlen_func": flash_attn_varlen_func,
    "flash_attn_varlen_qkvpacked_func": _flash_varlen_qkv,
    "flash_attn_varlen_kvpacked_func": _flash_varlen_kv,
    "flash_attn_with_kvcache": flash_attn_with_kvcache,
}
FUNCTIONS: dict[str, dict[str, Reader]] = {
    "flash_attn": _FLASH,
    "flash_attn.flash_attn_interface": _FLASH,
    "flash_attn_interface": {
        "flash_attn_func": _hopper(flash_attn_func),
        "flash_attn_varlen_func": _hopper(flash_attn_varlen_func),
        "flash_attn_with_kvcache": flash_attn_with_kvcache,
    },
    "xformers.ops": {"memory_efficient_attention": memory_efficient_attention},
    "xformers.ops.fmha": {"memory_efficient_attention": memory_efficient_attention},
    "torch.nn.attention.varlen": {"varlen_attn": varlen_attn},
}
"""By module and name."""
