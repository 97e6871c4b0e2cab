"""The implementation of transformers that regard stands for, where these disagree.

All of them agree on a row that sees a key. They differ in

    a row that sees no key      eager: the mean of all values; sdpa and flash: 0
    a query that is padding     flash attention leaves it out: 0; the others compute it
    no mask at all              eager: every key; the others go by `is_causal`
    the mask as a tensor        eager: added to the scores; the others: boolean

A model that runs on regard for a while stands for what it ran on before. One that was built with
our name, or switched to it, gives every row as eager does; without a mask it goes by `is_causal`,
and its mask is boolean, where its family knows sdpa.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, TypeAlias

import torch
from transformers import PreTrainedModel

Reference: TypeAlias = Literal["eager", "sdpa", "flash"]

_MARK = "_regard_stands_for"  # on a configuration, as long as regard stands for another


def stands_for(part: Any) -> Reference | None:
    """What regard stands for in a module, or in the modules of a configuration; None: nothing."""
    config = getattr(part, "config", part)
    if torch.compiler.is_compiling():
        return getattr(config, _MARK, None)
    # every layer of every pass asks, and a configuration answers through functions of its own
    try:
        held: dict[str, Any] = object.__getattribute__(config, "__dict__")
    except AttributeError:
        return None
    return held.get(_MARK)


def reference_of(part: Any) -> Reference:
    """The same; what its family runs on by default, where regard stands for nothing."""
    kind: Any = type(getattr(part, "config", part))
    return stands_for(part) or _default(kind)


@contextmanager
def standing_for(config: Any, implementation: str | None) -> Iterator[None]:
    """Within the block regard stands for an implementation of transformers; where it stands for
    another already, or none was chosen, nothing changes."""
    if implementation in (None, "regard"):
        yield
        return
    fused: Reference = "flash" if "flash" in implementation else "sdpa"
    setattr(config, _MARK, "eager" if "eager" in implementation else fused)
    try:
        yield
    finally:
        delattr(config, _MARK)


@cache
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _default(kind: type) -> Reference:
    """sdpa, unless the models of this configuration do not support it; asked of all models beside
    a module that has no configuration."""
    package = kind.__module__.rpartition(".")[0]
    models: list[Any] = [
        found
        for name, module in list(sys.modules.items())
        if name.startswith(f"{package}.modeling_")
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, PreTrainedModel)
        if found.__module__ == name
    ]
    own = [m for m in models if getattr(m, "config_class", None) is kind] or models
    return "eager" if own and not any(model._supports_sdpa for model in own) else "sdpa"
