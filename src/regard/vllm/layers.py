"""vLLM's attention modules as layers of a recording: what their scores are made of, and why some
cannot be replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.hear.hooks import Caller
from regard.hear.names import LayerNames, Spot
from regard.mask import Causal, Mask, Window
from regard.score import ALiBi, Bias


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


@dataclass(frozen=True, eq=False)
class ServedLayer:
    """One attention module of a served model."""

    path: str
    spot: Spot
    module: Any  # vLLM's Attention
    group: int  # of layers that share block tables
    mask: Mask
    scale: float
    bias: Bias | None
    softcap: float | None
    sink: Tensor | None  # (Hq,)

    @property
    def is_windowed(self) -> bool:
        """Whether pages behind its window may be given to others while a request runs."""
        return self.module.sliding_window is not None

    def views(self) -> CacheViews:
        """Its cache."""
        module = self.module
        return views_of(module.kv_cache, _backend(module), _isa(module), module.head_size)


@dataclass(frozen=True)
class ServedModel:
    """Layers that can be replayed, by name, and reasons why others cannot."""

    layers: Mapping[str, ServedLayer]
    refused: Mapping[str, str]

    @property
    def why_nothing(self) -> str:
        """One reason for all, where no layer can be replayed."""
        if self.layers:
            return ""
        if not self.refused:
            return "it has no attention layers"
        name, reason = next(iter(self.refused.items()))
        return f"{name}: {reason}"


def served_model(modules: Mapping[str, Any], groups: Mapping[str, int]) -> ServedModel:
    """From vLLM's modules by name, and which group of pages each has."""
    names = LayerNames(named=False)
    layers: dict[str, ServedLayer] = {}
    refused: dict[str, str] = {}
    for path, module in modules.items():
        if not hasattr(module, "get_kv_cache_spec"):
            continue  # no attention: experts are among these modules too
        reason = why_not(module) or ("" if path in groups else "it has no pages of its own")
        if reason:
            refused[path] = reason
        else:
            layers[path] = _layer(path, module, names.spot(Caller(path)), groups[path])
    return ServedModel(layers, refused)


def why_not(module: Any) -> str:
    """Why the attention of a module cannot be replayed; "" where it can."""
    kind = type(module).__name__
    if hasattr(module, "kv_lora_rank"):
        return (
            f"{kind} (MLA) caches one compressed key for all heads; the keys of each head, which "
            "scores are made of, are never there"
        )
    if hasattr(module, "mamba_type") or not hasattr(module, "impl"):
        return f"{kind} is linear attention or a state space: there is no attention matrix"
    if kind != "Attention":
        return f"what a {kind} may see is not known here"
    if str(module.attn_type).lower().rpartition(".")[2] != "decoder":
        return f"attention of the type {module.attn_type} keeps no pages"
    if getattr(module, "use_alibi_sqrt", False):
        return "its bias grows with the square root of the distance"
    cache = module.kv_cache
    if not isinstance(cache, Tensor) or cache.ndim != 4:
        return "its cache is not of the shape (blocks, heads, size, numbers)"
    if cache.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"its cache holds {str(cache.dtype).removeprefix('torch.')}, not the keys themselves"
    if getattr(module, "head_size_v", module.head_size) != module.head_size:
        return "its keys and values differ in size"
    return why_unknown(_backend(module), _isa(module))


def _layer(path: str, module: Any, spot: Spot, group: int) -> ServedLayer:
    impl, window = module.impl, module.sliding_window
    slopes, sinks = getattr(impl, "alibi_slopes", None), getattr(impl, "sinks", None)
    return ServedLayer(
        path=path,
        spot=spot,
        module=module,
        group=group,
        mask=Causal() if window is None else Window(window - 1),
        scale=float(impl.scale),
        bias=None if slopes is None else ALiBi(torch.as_tensor(slopes)),
        softcap=getattr(impl, "logits_soft_cap", None) or None,  # 0 is none
        sink=None if sinks is None else sinks.float(),
    )


def _backend(module: Any) -> str:
    return str(module.attn_backend.get_name())


def _isa(module: Any) -> str | None:
    return getattr(module, "isa", None)
