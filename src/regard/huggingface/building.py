"""A model built with `attn_implementation="regard"`: a family that cannot follow it is refused.

transformers checks that the name is known, not that the family asks for it. Some families look
an attention class up by that name in a table of their own. Where others of their classes dispatch,
our name stands in such a table for the class that the family would have taken.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from types import FrameType
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from regard.errors import RegardWarning
from regard.huggingface.families import (
    blind_classes,
    blind_within,
    package_of,
    refusal,
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
    own = beside or (() if builders else blind_within(kind))
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
