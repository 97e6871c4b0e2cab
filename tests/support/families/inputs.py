"""What a model takes: found from the signature of its `forward`, and accepted by the model."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from support.families.compare import outputs
from support.families.facts import BATCH, Facts, Inputs
from support.families.others import others, own
from support.families.pictures import images, sounds
from support.families.sizes import WIDTH
from support.families.words import words


class NoInputsError(Exception):
    """No inputs were found that the model takes."""


def accepted(model: Any, extra: Inputs | None = None) -> Inputs:
    """Inputs that the model runs on; where there are none, NoInputsError says what it said."""
    said: list[str] = []
    for inputs in _candidates(Facts(model)):
        try:
            return _tried(model, inputs | (extra or {}))
        except Exception as error:  # noqa: BLE001 - a refusal is the answer that is asked for
            said.append(_line(error))
    raise NoInputsError(" | ".join(dict.fromkeys(said)) or "nothing to pass")


def _candidates(facts: Facts) -> Iterator[Inputs]:
    """Every way to fill what `forward` takes, those with most modalities first."""
    pictures = [*images(facts), {}]
    noise = [*sounds(facts), {}]
    for seen, heard in itertools.product(pictures, noise):
        yield _with_words(facts, seen | heard)


def _with_words(facts: Facts, other: Inputs) -> Inputs:
    return others(facts) | other | words(facts, {}) | own(facts)


def _tried(model: Any, inputs: Inputs) -> Inputs:
    """The inputs as the model takes them: places are made for features that need them."""
    places: dict[str, int] = {}
    for _ in range(6):
        try:
            return _sound(model, inputs)
        except ValueError as error:
            places |= _places(model, inputs, error)
            inputs = inputs | words(Facts(model), places)
    raise NoInputsError("places do not fit")


def _sound(model: Any, inputs: Inputs) -> Inputs:
    """The inputs, where what comes of them is numbers: NaN equals nothing and so proves nothing."""
    lost = [name for name, value in outputs(model, inputs).items() if not value.isfinite().any()]
    if lost:
        raise NoInputsError(f"{', '.join(lost)}: not finite")
    return inputs


_MISFIT = re.compile(r"(?i)(image|video|audio).*tokens.*?(\d+).*?features.*?(\d+)", re.DOTALL)


def _places(model: Any, inputs: Inputs, error: Exception) -> dict[str, int]:
    """How many tokens an entry needs for features that an error counts: one by one, number by
    number, or by what they come from."""
    found = _MISFIT.search(str(error))
    if found is None:
        raise error
    kind, tokens, features = found[1].lower(), int(found[2]), int(found[3])
    if tokens == 0 or tokens != features:
        count = features
    elif features % (BATCH * WIDTH) == 0:
        count = features // WIDTH
    else:
        count = _counted(model, inputs, kind)
    return {kind: count // BATCH}


def _counted(model: Any, inputs: Inputs, kind: str) -> int:
    """How many tokens a model makes of all its images or sounds."""
    inner = getattr(model, "model", model)
    asked = getattr(inner, f"get_{kind}_features")
    takes = inspect.signature(asked).parameters
    with torch.no_grad():
        found = asked(**{name: value for name, value in inputs.items() if name in takes})
    return _rows(getattr(found, "pooler_output", found))


def _rows(features: Any) -> int:
    if isinstance(features, Tensor):
        return features.shape[:-1].numel()
    return sum(_rows(one) for one in features)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
