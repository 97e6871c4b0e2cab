"""A model's attention on regard for as long as a block lasts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from regard.errors import DTypeError, RegardWarning, UnavailableError
from regard.huggingface.families import AttentionModules, parts_unseen, refusal, sight
from regard.huggingface.reference import standing_for
from regard.huggingface.registry import NAME, register


@contextmanager
def using(model: nn.Module) -> Iterator[AttentionModules]:
    """Let a model compute its attention with regard; afterwards everything is as it was.

    Gives the attention modules by name, those that are seen and those that are not. A model of
    which nothing can be seen is an error; parts that cannot be seen are a warning.
    """
    found = _check(model)
    with switched(model, found):
        yield found


@contextmanager
def switched(
    model: nn.Module, found: AttentionModules, leave: tuple[str, ...] = ()
) -> Iterator[None]:
    """Within the block, the modules that are seen ask for our attention, except those that ask for
    one of `leave`."""
    register()
    every = [(config, config._attn_implementation) for config in _configs(model, found)]
    before = [(config, name) for config, name in every if name not in leave]
    with ExitStack() as stack:
        for config, name in before:
            stack.enter_context(standing_for(config, name))
        try:
            for config, _ in before:
                _set(config, NAME)
            yield
        finally:
            for config, name in before:
                _set(config, name)


def _set(config: PreTrainedConfig, name: str | None) -> None:
    """Of this configuration alone: its property sets those inside it, or those inside these."""
    config._attn_implementation_internal = name


def _check(model: nn.Module) -> AttentionModules:
    """Raise where nothing can be seen; warn where something cannot."""
    families = _families(model)
    found = sight(model)
    if not found.seen and not found.unseen:
        raise UnavailableError(f"{families} has no attention, so there is nothing to see")
    if not found.seen:
        raise refusal(families, map(type, found.unseen.values()))
    if found.unseen:
        warnings.warn(parts_unseen(families, found.unseen), RegardWarning, stacklevel=4)
    return found


def _families(model: Any) -> str:
    """What the model calls itself; an error where it is no model of transformers."""
    if isinstance(model, nn.Module):
        for module in model.modules():
            if isinstance(module, PreTrainedModel):
                return str(module.config.model_type)
    raise DTypeError(f"using(model) takes a model of transformers, not a {type(model).__name__}")


def _configs(model: nn.Module, found: AttentionModules) -> list[PreTrainedConfig]:
    """The configurations that decide: of modules that dispatch, and of models around them, where
    masks are made."""
    decide: dict[int, PreTrainedConfig] = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        around = isinstance(module, PreTrainedModel) and _holds(name, found)
        if isinstance(config, PreTrainedConfig) and (around or name in found.seen):
            decide[id(config)] = config
    return list(decide.values())


def _holds(name: str, found: AttentionModules) -> bool:
    return any(name == "" or one.startswith(f"{name}.") for one in found.seen)
