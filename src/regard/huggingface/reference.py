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
from threading import RLock
from typing import Any, Literal, TypeAlias

import torch
from transformers import PreTrainedModel

Reference: TypeAlias = Literal["eager", "sdpa", "flash"]

IMPLEMENTATION = "_attn_implementation_internal"  # where a configuration keeps its choice
_MARK = "_regard_stands_for"  # on a configuration that `using` has switched


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
    if IMPLEMENTATION not in held or _MARK in held:
        return held.get(_MARK)
    own, shown = held[IMPLEMENTATION], object.__getattribute__(config, IMPLEMENTATION)
    return None if shown == own else _as_reference(own)  # a follower is in scope


def _as_reference(implementation: str | None) -> Reference | None:
    if implementation in (None, "regard"):
        return None
    fused: Reference = "flash" if "flash" in implementation else "sdpa"
    return "eager" if "eager" in implementation else fused


def reference_of(part: Any) -> Reference:
    """The same; what its family runs on by default, where regard stands for nothing."""
    kind: Any = type(getattr(part, "config", part))
    return stands_for(part) or _default(kind)


_LOCK = RLock()  # the collector may end a block in the middle
_SWITCHED: dict[int, list[Any]] = {}  # by id: a configuration, its own choice, in how many blocks


@contextmanager
def standing_for(config: Any, implementation: str | None) -> Iterator[None]:
    """Within the block, and others around or across it, a configuration asks for regard, which
    stands for an implementation of transformers; for none where none was chosen."""
    held = vars(config)
    with _LOCK:
        block = _SWITCHED.setdefault(id(config), [config, held.get(IMPLEMENTATION), 0])
        block[2] += 1
        if block[2] == 1 and (reference := _as_reference(implementation)):
            held[_MARK] = reference
        held[IMPLEMENTATION] = "regard"  # not by its property, which sets those inside it too
    try:
        yield
    finally:
        with _LOCK:
            block[2] -= 1
            if not block[2]:
                held.pop(_MARK, None)
                held[IMPLEMENTATION] = _SWITCHED.pop(id(config))[1]


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
