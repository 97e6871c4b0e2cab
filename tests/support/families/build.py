"""A model type → a small model whose attention is sharp, built the same way every time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from support.families.shrink import model_class, tiny_config

MOST = 50_000_000  # parameters


class TooManyError(Exception):
    """A model that would not stay small."""


def build(name: str, implementation: str | None = None) -> Any:
    """A model of this type with random weights; on transformers' choice where none is named."""
    config = tiny_config(name)
    cls = model_class(name)
    with torch.device("meta"):
        size = sum(one.numel() for one in cls._from_config(config).parameters())
    if size > MOST:
        raise TooManyError(f"{size / 1e6:.0f} million parameters in the smallest found")
    torch.manual_seed(0)
    options = {} if implementation is None else {"attn_implementation": implementation}
    model = cls._from_config(tiny_config(name), **options)
    return _enliven(model).eval()


def _enliven(model: nn.Module) -> nn.Module:
    """Replace an initialisation made for training, under which every row is nearly uniform."""
    dice = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and parameter.numel():
                parameter.normal_(0, 1.2 * parameter.shape[1] ** -0.5, generator=dice)
            elif name.endswith(("bias", "sinks")):
                parameter.normal_(0, 0.3, generator=dice)
    return model
