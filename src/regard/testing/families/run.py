"""One model, run the same way every time."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from regard.testing.families.compare import Flat, flat
from regard.testing.families.facts import Inputs

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
