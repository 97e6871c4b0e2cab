"""Other libraries' objects around a model, and what to give instead of them."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.errors import InputError

_HELD = ("_model", "_module")  # what nnsight calls the model that it wraps


def check_module(model: Any) -> None:
    """InputError where it is no torch.nn.Module."""
    if isinstance(model, nn.Module) and _library(model) != "nnsight":
        return
    name = type(model).__name__
    if _library(model) == "nnsight":
        held = next((one for one in _HELD if isinstance(vars(model).get(one), nn.Module)), _HELD[0])
        raise InputError(
            f"model is nnsight's {name}, whose calls are traced and run later; give the model that "
            f"it wraps, model.{held}, and call that one. Inside a trace the second output of an "
            "attention module is a regard.Attention (docs/recipes.md)"
        )
    raise InputError(f"model is a {name}; give a torch.nn.Module")


def instead_of(model: nn.Module) -> str:
    """What to record instead of a model of which nothing can be heard; "" where nothing better is
    known."""
    if _library(model) != "transformer_lens":
        return ""
    return (
        f"TransformerLens' {type(model).__name__} computes attention by itself, step by step; load "
        "the same weights with transformers (regard.models.load) and record that model, or give "
        "the queries and keys that run_with_cache keeps to regard.replay (docs/recipes.md)"
    )


def _library(model: Any) -> str:
    """The package that a model's class, or one that it is built on, comes from."""
    packages = [kind.__module__.partition(".")[0] for kind in type(model).__mro__]
    return next((name for name in packages if name in ("nnsight", "transformer_lens")), "")
