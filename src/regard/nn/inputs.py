"""What a layer accepts, checked before anything is projected."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import DTypeError, ShapeError


def check_input(x: Tensor, project: nn.Linear, name: str) -> None:
    """Raise unless `project` takes x (…, tokens, width)."""
    if not isinstance(x, Tensor):
        raise DTypeError(f"{name} is a {type(x).__name__}; give a torch.Tensor")
    if x.ndim < 2 or x.shape[-1] != project.in_features:
        raise ShapeError(
            f"{name} has shape {tuple(x.shape)}; this layer takes (…, tokens, "
            f"{project.in_features})"
        )
    if x.dtype == project.weight.dtype:
        return
    # autocast casts on its own, and a Linear of another make may take what it likes
    if type(project) is nn.Linear and not torch.is_autocast_enabled(x.device.type):
        given, held = (str(t.dtype).removeprefix("torch.") for t in (x, project.weight))
        raise DTypeError(
            f"{name} has dtype {given}, the layer {held}; cast with {name}.to(torch.{held}) "
            "or move the layer with layer.to(dtype)"
        )
