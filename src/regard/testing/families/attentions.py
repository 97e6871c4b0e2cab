"""`output_attentions=True`: one entry per layer, eager's tensor against regard's matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

_ALLOWED = 1e-4  # of a weight


def attentions(outputs: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything a model says about its attention: (name, one layer's)."""
    if not isinstance(outputs, Mapping):
        return
    for name, value in outputs.items():
        if str(name).endswith("attentions") and isinstance(value, list | tuple):
            for n, layer in enumerate(value):
                if layer is not None:
                    yield f"{path}{name}[{n}]", layer
        elif isinstance(value, Mapping):
            yield from attentions(value, f"{path}{name}.")


def misfits(found: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """Layers that are missing or whose weights differ. A row that sees no key does not count: eager
    gives all of them the same weight there, regard none any."""
    wrong = []
    for name, expected in reference.items():
        if not isinstance(expected, Tensor):
            continue
        if name not in found:
            wrong.append(f"{name} is missing")
            continue
        weights = found[name] if isinstance(found[name], Tensor) else found[name].dense()
        if weights.shape != expected.shape:
            wrong.append(f"{name} is {tuple(weights.shape)}, not {tuple(expected.shape)}")
            continue
        blank = (weights == 0).all(-1) & (expected == expected[..., :1]).all(-1)
        gap = (as_told(weights, expected) - expected).abs()[~blank]
        if gap.numel() and (most := float(gap.max())) > _ALLOWED:
            wrong.append(f"{name} is off by {most:.2g} (allowed {_ALLOWED:.2g})")
    return wrong


def as_told(weights: Tensor, expected: Tensor) -> Tensor:
    """Weights in the way in which eager tells them: some families leave a sink's share out of the
    matrix and put it into the output alone, so that rows still add up to 1."""
    if torch.allclose(expected.sum(-1), torch.ones(()), atol=1e-4):
        return weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return weights
