"""`output_attentions=True`: one entry per layer, eager's tensor against regard's matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

__all__ = ["attentions", "misfits"]

ALLOWED = 1e-4  # of a weight


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
    """Layers that are missing or whose weights differ; rows that see no key do not count."""
    wrong = []
    for name, expected in reference.items():
        if not isinstance(expected, Tensor):
            continue
        if name not in found:
            wrong.append(f"{name} is missing")
            continue
        weights, counts = _weights(found[name])
        if weights.shape != expected.shape:
            wrong.append(f"{name} is {tuple(weights.shape)}, not {tuple(expected.shape)}")
            continue
        if not isinstance(found[name], Tensor) and found[name].sink_mass().any():
            # some families leave the sink's share out of the weights they report
            weights, expected = (_whole(rows) for rows in (weights, expected))
        gap = (weights - expected).abs()
        if counts is not None:
            gap = gap[counts]
        if gap.numel() and (most := float(gap.max())) > ALLOWED:
            wrong.append(f"{name} is off by {most:.2g} (allowed {ALLOWED:.2g})")
    return wrong


def _whole(rows: Tensor) -> Tensor:
    return rows / rows.sum(-1, keepdim=True).clamp(min=1e-30)


def _weights(layer: Any) -> tuple[Tensor, Tensor | None]:
    """(weights, rows that see a key) of regard's matrix, or of a module that made its own."""
    if isinstance(layer, Tensor):
        return layer, None
    weights = layer.dense()
    return weights, weights.any(-1)
