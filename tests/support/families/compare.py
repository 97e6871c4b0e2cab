"""One model, run the same way every time, and two runs compared: number by number, and eager's
attention with regard's."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import PreTrainedConfig

FLOOR = 1e-4  # of the largest number in a tensor
_FACTOR = 8.0  # times what the same computation loses in fp32
# what a model carries along rather than computes
_OTHER = ("attentions", "past_key_values", "cache_params", "mems", "state", "rnn_state")

Flat = dict[str, Tensor]
Inputs: TypeAlias = dict[str, Any]


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


_NEW, _START = 4, 1  # tokens generated, and the token that a decoder begins with


def raw(model: Any, inputs: Inputs, **options: Any) -> Any:
    """What `forward` returns; the inputs are copied and the dice thrown anew."""
    torch.manual_seed(0)
    with torch.no_grad():
        return model(**_copied(inputs), **options)


def outputs(model: Any, inputs: Inputs) -> Flat:
    """Every floating tensor that `forward` returns."""
    return flat(raw(model, inputs))


def exact(model: Any, inputs: Inputs) -> Flat | None:
    """The same in float64; None where a model cannot be run so."""
    double = copy.deepcopy(model).double()
    wide = {
        name: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in inputs.items()
    }
    try:
        return outputs(double, wide)
    except (RuntimeError, TypeError, ValueError):  # parts that insist on float32
        return None


def generated(model: Any, inputs: Inputs) -> list[Tensor]:
    """What a short greedy `generate` with a cache returns; a decoder begins by itself."""
    torch.manual_seed(0)
    given = {name: one for name, one in _copied(inputs).items() if name != "decoder_input_ids"}
    if model.config.is_encoder_decoder:
        given["decoder_start_token_id"] = _START
    with torch.no_grad():
        found = model.generate(**given, do_sample=False, max_new_tokens=_NEW, min_new_tokens=_NEW)
    return [found] if isinstance(found, Tensor) else [*flat(found).values()]


def implementations(model: Any) -> dict[str, Any]:
    """Module → the implementation its configuration names."""
    return {
        name: module.config._attn_implementation
        for name, module in model.named_modules()
        if isinstance(getattr(module, "config", None), PreTrainedConfig)
    }


def _copied(inputs: Inputs) -> Inputs:
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in inputs.items()}


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
