"""A model built with `attn_implementation="regard"`: a family that cannot follow it is refused.

transformers checks that the name is known, not that the family asks for it.
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
from regard.huggingface.families import blind_classes, package_of, refusal, unseen_because

__all__ = ["check_built"]

_TABLE = "_ATTENTION_CLASSES"  # how such a table's name ends: implementation → class


def check_built(model: nn.Module) -> None:
    """UnavailableError where nothing of a model that is being built would follow our name.

    A part of a larger model is a warning, if it can be built at all: the other parts may follow.
    """
    kind: Any = type(model)
    if not isinstance(model, PreTrainedModel) or not (own := _only_blind(kind)):
        return
    config = model.config
    if _is_part(model, inspect.currentframe()) and not _has_table(own):
        warnings.warn(unseen_because(config.model_type, own), RegardWarning, stacklevel=3)
    elif all(_is_kin(config, getattr(config, part, None)) for part in config.sub_configs):
        raise refusal(config.model_type, own)


@cache
def _only_blind(kind: Any) -> tuple[type[nn.Module], ...]:
    """The attention classes beside a model's class and its bases', where none dispatches."""
    models = (base for base in kind.__mro__ if issubclass(base, PreTrainedModel))
    return blind_classes({base.__module__ for base in models if base is not PreTrainedModel})


def _is_part(model: PreTrainedModel, frame: FrameType | None) -> bool:
    """Whether a model of another family is being built around it: only the stack knows."""
    while frame is not None:
        around = frame.f_locals.get("self")
        if isinstance(around, PreTrainedModel) and type(around.config) is not type(model.config):
            return True
        frame = frame.f_back
    return False


def _has_table(kinds: Iterable[type[nn.Module]]) -> bool:
    """Whether a family looks its class up by the implementation's name, and so cannot be built."""
    homes = {kind.__module__ for kind in kinds}
    return any(name.endswith(_TABLE) for home in homes for name in vars(sys.modules[home]))


def _is_kin(config: Any, part: Any) -> bool:
    """Whether a part's configuration is of the same family, and not of one that may dispatch."""
    return part is None or package_of(part) == package_of(config)
