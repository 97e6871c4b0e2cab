"""Two runs of a model, compared number by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

FLOOR = 1e-4  # of the largest number in a tensor
_FACTOR = 8.0  # times what the same computation loses in fp32
# what a model carries along rather than computes
_OTHER = ("attentions", "past_key_values", "cache_params", "mems", "state", "rnn_state")

Flat = dict[str, Tensor]


def flat(outputs: Any) -> Flat:
    """Every tensor of floating numbers in an output, by its path."""
    return {name: value.detach() for name, value in _walk("", outputs)}


def _walk(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.numel():
            yield path or "output", value
    elif isinstance(value, Mapping):
        for name, inside in value.items():
            if name not in _OTHER and not str(name).endswith("attentions"):
                yield from _walk(f"{path}.{name}".lstrip("."), inside)
    elif isinstance(value, list | tuple):
        for n, inside in enumerate(value):
            yield from _walk(f"{path}[{n}]", inside)


def tolerances(reference: Flat, exact: Flat | None) -> dict[str, float]:
    """How far from the reference another computation may lie: what fp32 itself loses, at least
    a floor."""
    allowed = {}
    for name, value in reference.items():
        most = FLOOR * _largest(value)
        if exact is not None and name in exact and exact[name].shape == value.shape:
            most = max(most, _FACTOR * _largest(_gap(value, exact[name])))
        allowed[name] = most
    return allowed


def differences(found: Flat, reference: Flat, allowed: Mapping[str, float]) -> list[str]:
    """What is missing, has another shape or lies too far off; nothing where all is right.

    Where the reference itself is not a number, there is nothing to lie near.
    """
    wrong = [f"{name} is missing" for name in reference if name not in found]
    for name, value in reference.items():
        other = found.get(name)
        if other is None:
            continue
        if other.shape != value.shape:
            wrong.append(f"{name} is {tuple(other.shape)}, not {tuple(value.shape)}")
        elif not torch.equal(other.isfinite() | value.isnan(), value.isfinite() | value.isnan()):
            wrong.append(f"{name} is not finite in other places")
        elif (gap := _largest(_gap(other, value))) > allowed[name]:
            wrong.append(f"{name} is off by {gap:.2g} (allowed {allowed[name]:.2g})")
    return wrong


def _gap(one: Tensor, other: Tensor) -> Tensor:
    return torch.where(one.isfinite() & other.isfinite(), one.double() - other.double(), 0.0)


def _largest(values: Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
