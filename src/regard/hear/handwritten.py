"""Modules that write softmax(QKᵀ)V out by hand and have another way: torch's function.

timm        modules with `fused_attn`, where their `forward` knows torch's function
diffusers   processors without weights, which have a twin that calls torch's function
"""

from __future__ import annotations

from functools import cache
from inspect import getattr_static
from sys import modules
from typing import Any

from torch import nn

from regard.hear.attached import Substitutes

_TWINS = {
    "AttnProcessor": "AttnProcessor2_0",
    "SlicedAttnProcessor": "AttnProcessor2_0",
    "XFormersAttnProcessor": "AttnProcessor2_0",
    "AttnAddedKVProcessor": "AttnAddedKVProcessor2_0",
    "SlicedAttnAddedKVProcessor": "AttnAddedKVProcessor2_0",
    "XFormersAttnAddedKVProcessor": "AttnAddedKVProcessor2_0",
}
_DIFFUSERS = "diffusers.models.attention_processor"


def by_torch(model: nn.Module) -> Substitutes:
    """What these modules hold while they go their other way, which computes the same."""
    return {
        (id(module), name): (module, stands)
        for module in model.modules()
        for name, stands in (("fused_attn", _fused), ("processor", _twin))
        if name in vars(module) and (name == "processor" or _knows_torch(type(module)))
        if stands(vars(module)[name]) is not vars(module)[name]
    }


def _fused(held: Any) -> Any:
    return held if held is None else True


def _twin(held: Any) -> Any:
    kind = type(held)
    if kind.__module__ != _DIFFUSERS or kind.__name__ not in _TWINS:
        return held
    return _made(_TWINS[kind.__name__])


@cache
def _made(name: str) -> Any:
    return getattr(modules[_DIFFUSERS], name)()


def _knows_torch(kind: type[nn.Module]) -> bool:
    """Whether one of a class's methods names torch's function."""
    codes = (getattr(getattr_static(kind, name, None), "__code__", None) for name in dir(kind))
    return any("scaled_dot_product_attention" in code.co_names for code in codes if code)
