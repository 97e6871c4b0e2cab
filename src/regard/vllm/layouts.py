"""Where keys and values lie in a layer's cache, by backend: views of it, never copies.

    cache   (blocks, Hkv, size, 2 · D), of any strides
    views   key (blocks, Hkv, size, D), value (blocks, Hkv, size, Dv)

FlashAttention, FlashInfer, Triton and FlexAttention put a key's numbers before its value's in the
last axis, whichever axis is outermost in memory (vLLM's layouts LBHNC and LBNHC are strides here).
The CPU's kernels put the keys of a block and head first and its values behind them; its `vec`
kernels keep these keys column by column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor


class CacheViews(NamedTuple):
    """Both (blocks, Hkv, size, numbers of one)."""

    key: Tensor
    value: Tensor


def _side_by_side(cache: Tensor, dim: int) -> CacheViews:
    return CacheViews(cache[..., :dim], cache[..., dim:])


def _columns(cache: Tensor, dim: int) -> CacheViews:
    """`vec`: in each block and head D × size numbers of keys, then size × Dv of values."""
    blocks, heads, size, _ = cache.shape
    flat = cache.view(blocks, heads, -1)  # (blocks, Hkv, size · 2 D)
    key = flat[..., : size * dim].view(blocks, heads, dim, size).transpose(-1, -2)
    return CacheViews(key, flat[..., size * dim :].view(blocks, heads, size, -1))


_BY_BACKEND: dict[str, Callable[[Tensor, int], CacheViews]] = {
    "FLASH_ATTN": _side_by_side,
    "FLASHINFER": _side_by_side,
    "TRITON_ATTN": _side_by_side,
    "FLEX_ATTENTION": _side_by_side,
}
_BY_ISA = {"vec": _columns}  # of CPU_ATTN


def why_unknown(backend: str, isa: str | None) -> str:
    """Why the cache of a backend cannot be read; "" where it can."""
    if backend == "CPU_ATTN":
        if isa in _BY_ISA:
            return ""
        return f"the CPU kernels {isa!r} keep keys in a layout of their own, which is not verified"
    return "" if backend in _BY_BACKEND else f"the cache of the backend {backend} is not known"


def views_of(cache: Tensor, backend: str, isa: str | None, dim: int) -> CacheViews:
    """Keys and values of every block."""
    lay = _BY_ISA[str(isa)] if backend == "CPU_ATTN" else _BY_BACKEND[backend]
    return lay(cache, dim)


def numbers_at(view: Tensor, slots: Tensor) -> Tensor:
    """(H, n, D): a copy of what lies in these slots, counted through all blocks."""
    size = view.shape[2]
    found: Any = view[slots // size, :, slots % size]
    return found.transpose(0, 1)
