"""How a model's attention comes to be heard: on regard's own way, or from torch's function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from regard.engine.matrix import Attention
from regard.errors import RegardWarning
from regard.recorder.sdpa import SeeTorch

__all__ = ["audible", "is_hugging_face"]


@contextmanager
def audible(model: nn.Module, saw: Callable[[Attention, Tensor, Tensor], None]) -> Iterator[None]:
    """Within the block a model of transformers computes its attention with regard, which tells
    those who listen. Other modules, and models that call torch's function without asking
    transformers, go on as they do; `saw` is told of what torch computes.

    A model of which nothing would be heard is an error; inside another module, a warning.
    """
    if is_hugging_face(model):
        from regard.huggingface import using
        from regard.huggingface.families import calls_torch

        if not calls_torch(model):
            with using(model):
                yield
            return
    else:
        _warn_of_deaf_parts(model)
    with SeeTorch(saw):
        yield


def is_hugging_face(model: nn.Module) -> bool:
    """Whether transformers, or somebody who builds on it, wrote the model."""
    return any(kind.__module__.startswith("transformers.") for kind in type(model).__mro__)


def _warn_of_deaf_parts(model: nn.Module) -> None:
    """Say which models of transformers inside a module compute their attention by themselves."""
    deaf: dict[str, str] = {}
    for part in model.modules():
        family = getattr(getattr(part, "config", None), "model_type", None)
        if family is not None and is_hugging_face(part):
            from regard.huggingface.families import calls_torch, sight, unseen_because

            found = sight(part)
            if found.unseen and not found.seen and not calls_torch(part):
                kinds = [type(module) for module in found.unseen.values()]
                deaf.setdefault(family, unseen_because(family, kinds))
    for said in deaf.values():
        warnings.warn(said, RegardWarning, stacklevel=5)
