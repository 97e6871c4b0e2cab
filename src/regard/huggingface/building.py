"""A model built with `attn_implementation="regard"`, or switched to it: a family that cannot follow
is refused.

transformers checks that the name is known, not that the family asks for it. Some families look
an attention class up by that name in a table of their own. Where others of their classes dispatch,
our name stands in such a table for the class that the family would have taken.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from regard.errors import RegardWarning
from regard.huggingface.families import (
    blind_classes,
    blind_within,
    package_of,
    parts_unseen,
    refusal,
    sight,
    unseen_because,
)
from regard.huggingface.reference import reference_of
from regard.huggingface.registry import NAME

_TABLE = "_ATTENTION_CLASSES"  # how such a table's name ends: implementation → class


def check_built(model: nn.Module) -> None:
    """UnavailableError where nothing of a model that is being built would follow our name.

    A part of a larger model is a warning, if it can be built at all: the other parts may follow.
    """
    kind: Any = type(model)
    if not isinstance(model, PreTrainedModel):
        return
    beside, config = _only_blind(kind), model.config
    builders = _builders(model, inspect.currentframe())
    around = next((one for one in builders if type(one.config) is not type(config)), None)
    alike = builders if around is None else builders[: builders.index(around)]
    # parts of one configuration are judged with the whole (DeformableDETR's encoder and decoder)
    within = blind_within(type(alike[-1]) if alike else kind)
    own = beside or (() if around is not None and _tables(within) else within)
    if not own:
        taken = _fill_tables(kind.__module__, reference_of(config))
        if taken and kind.__module__ != type(around).__module__:  # which has said it already
            classes = ", ".join(sorted({one.__name__ for one in taken}))
            warnings.warn(
                f"{config.model_type}: layers of {classes} compute attention by themselves and are "
                "not seen; its other layers run on regard",
                RegardWarning,
                stacklevel=3,
            )
    elif around is not None and not _tables(own):
        warnings.warn(unseen_because(config.model_type, own), RegardWarning, stacklevel=3)
    elif all(_is_kin(config, getattr(config, part, None)) for part in config.sub_configs):
        raise refusal(config.model_type, own)


@contextmanager
def switch_checked(model: PreTrainedModel, *, whole: bool) -> Iterator[None]:
    """Around `set_attn_implementation` with our name, for the whole model or for parts of it:
    UnavailableError, and everything as it was, where no attention module follows it; a warning
    where some do not."""
    before = [(config, config._attn_implementation) for config in _configs_of(model)]
    yield
    modules = sight(model)
    named = {name for name in (*modules.seen, *modules.unseen) if _asks_for_us(model, name)}
    unseen = {name: part for name, part in modules.unseen.items() if whole or name in named}
    if not unseen:
        return
    family = str(model.config.model_type)
    if named.isdisjoint(modules.seen):
        for config, name in before:
            config._attn_implementation_internal = name
        raise refusal(family, map(type, unseen.values()))
    warnings.warn(parts_unseen(family, unseen), RegardWarning, stacklevel=5)


def _configs_of(model: nn.Module) -> list[PreTrainedConfig]:
    """Those of all its modules, and those inside these."""
    todo: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    configs: dict[int, PreTrainedConfig] = {}
    while todo:
        config = todo.pop()
        if isinstance(config, PreTrainedConfig) and id(config) not in configs:
            configs[id(config)] = config
            todo += [getattr(config, part, None) for part in config.sub_configs]
    return list(configs.values())


def _asks_for_us(model: nn.Module, name: str) -> bool:
    """Whether the configuration of a module, or of the nearest model around it, has our name."""
    while True:
        config = getattr(model.get_submodule(name), "config", None)
        if isinstance(config, PreTrainedConfig) or not name:
            return getattr(config, "_attn_implementation", None) == NAME
        name = name.rpartition(".")[0]


@cache
def _only_blind(kind: Any) -> tuple[type[nn.Module], ...]:
    """The attention classes beside a model's class and its bases', where none dispatches."""
    models = (base for base in kind.__mro__ if issubclass(base, PreTrainedModel))
    return blind_classes({base.__module__ for base in models if base is not PreTrainedModel})


def _builders(model: PreTrainedModel, frame: FrameType | None) -> list[PreTrainedModel]:
    """The other models that are being built around it, inner ones first: only the stack knows."""
    found: list[PreTrainedModel] = []
    while frame is not None:
        around = frame.f_locals.get("self")
        if isinstance(around, PreTrainedModel) and around is not model:
            found.append(around)
        frame = frame.f_back
    return found


def _fill_tables(home: str, reference: str) -> list[type[nn.Module]]:
    """Our name in the tables of a module; the classes it stands for in this model."""
    taken = []
    for name, table in vars(sys.modules[home]).items():
        if name.endswith(_TABLE):
            table[NAME] = table.get(reference, table["eager"])
            taken.append(table[NAME])
    return taken


def _tables(kinds: Iterable[type[nn.Module]]) -> list[str]:
    """Where families look their class up by the implementation's name, and so cannot be built."""
    homes = {kind.__module__ for kind in kinds}
    return [name for home in homes for name in vars(sys.modules[home]) if name.endswith(_TABLE)]


def _is_kin(config: Any, part: Any) -> bool:
    """Whether a part's configuration is of the same family, and not of one that may dispatch."""
    return part is None or package_of(part) == package_of(config)
