"""A model's attention on regard for as long as a block lasts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from regard.errors import DTypeError, RegardWarning, UnavailableError
from regard.huggingface.families import AttentionModules, parts_unseen, refusal, sight
from regard.huggingface.reference import IMPLEMENTATION, standing_for
from regard.huggingface.registry import NAME, register

_Substitutes: TypeAlias = dict[tuple[int, str], tuple[Any, Callable[[Any], Any]]]


@contextmanager
def using(model: nn.Module) -> Iterator[AttentionModules]:
    """Let a model compute its attention with regard; afterwards everything is as it was.

    Gives the attention modules by name, those that are seen and those that are not. A model of
    which nothing can be seen is an error; parts that cannot be seen are a warning. Unlike while it
    is recorded, the model itself is switched: for all threads, and copies made inside as well.
    """
    register()
    modules = _check(model)
    with ExitStack() as stack:
        for config in _configs(model, modules):
            stack.enter_context(standing_for(config, vars(config).get(IMPLEMENTATION)))
        yield modules


def substituted(model: nn.Module) -> _Substitutes:
    """The same for a follower of the model, in its scope alone: what stands for the choice of each
    configuration."""
    return asking_for_regard(model, _check(model))


def asking_for_regard(
    model: nn.Module, modules: AttentionModules, leave: tuple[str, ...] = ()
) -> _Substitutes:
    """The same for modules that are seen, except those that ask for one of `leave`."""
    register()

    def stands(name: str | None) -> str | None:
        return name if name in leave else NAME

    return {(id(config), IMPLEMENTATION): (config, stands) for config in _configs(model, modules)}


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
