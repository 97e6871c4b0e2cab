"""Modules that write softmax(QKᵀ)V out by hand and have another way: torch's function.

timm        modules with `fused_attn`, where their `forward` knows torch's function
diffusers   processors without weights, which have a twin that calls torch's function
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import getattr_static
from sys import modules
from typing import Any

from torch import nn

_TWINS = {
    "AttnProcessor": "AttnProcessor2_0",
    "SlicedAttnProcessor": "AttnProcessor2_0",
    "XFormersAttnProcessor": "AttnProcessor2_0",
    "AttnAddedKVProcessor": "AttnAddedKVProcessor2_0",
    "SlicedAttnAddedKVProcessor": "AttnAddedKVProcessor2_0",
    "XFormersAttnAddedKVProcessor": "AttnAddedKVProcessor2_0",
}
_DIFFUSERS = "diffusers.models.attention_processor"


@contextmanager
def through_torch(model: nn.Module) -> Iterator[None]:
    """Within the block, these modules go their other way, which computes the same."""
    changed = list(_changes(model))
    try:
        for owner, name, _, other in changed:
            setattr(owner, name, other)
        yield
    finally:
        for owner, name, before, _ in changed:
            setattr(owner, name, before)


def _changes(model: nn.Module) -> Iterator[tuple[nn.Module, str, Any, Any]]:
    """Which module, which attribute, what it is, and what it is to be."""
    for module in model.modules():
        fused = vars(module).get("fused_attn")
        if fused is not None and not fused and _knows_torch(type(module)):
            yield module, "fused_attn", fused, True
        processor = vars(module).get("processor")
        kind = type(processor)
        if kind.__module__ == _DIFFUSERS and kind.__name__ in _TWINS:
            yield (
                module,
                "processor",
                processor,
                getattr(modules[_DIFFUSERS], _TWINS[kind.__name__])(),
            )


def _knows_torch(kind: type[nn.Module]) -> bool:
    """Whether one of a class's methods names torch's function."""
    codes = (getattr(getattr_static(kind, name, None), "__code__", None) for name in dir(kind))
    return any("scaled_dot_product_attention" in code.co_names for code in codes if code)
