"""How published configurations write down rotary positions: `rope_parameters`, or before that
`rope_theta` and `rope_scaling`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from regard.errors import UnavailableError
from regard.nn.rotary_scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    RotaryScaling,
    YarnScaling,
)

_Given = Mapping[str, Any]


def read_rope(config: _Given) -> tuple[float, RotaryScaling | None]:
    """The base, and how frequencies are scaled."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    base = rope.get("rope_theta") or config.get("rope_theta") or 10000.0
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise UnavailableError("partial_rotary_factor: here all dimensions of a head turn")
    if kind == "default":
        return float(base), None
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise UnavailableError(f"rope_type={kind!r}; known are default, {known}")
    return float(base), _KINDS[kind](rope, config)


def _trained(rope: _Given, config: _Given) -> int:
    """Tokens of the texts that the model was first trained on."""
    name = "original_max_position_embeddings"
    return rope.get(name) or config.get(name) or config["max_position_embeddings"]


def _factor(rope: _Given, config: _Given) -> float:
    given: float | None = rope.get("factor")
    longest: int = config["max_position_embeddings"]
    return longest / _trained(rope, config) if given is None else given


def _linear(rope: _Given, config: _Given) -> LinearScaling:
    return LinearScaling(rope["factor"])


def _dynamic(rope: _Given, config: _Given) -> DynamicScaling:
    return DynamicScaling(rope["factor"], config["max_position_embeddings"])


def _yarn(rope: _Given, config: _Given) -> YarnScaling:
    factor, magnitude = _factor(rope, config), rope.get("attention_factor")
    both = rope.get("mscale"), rope.get("mscale_all_dim")
    if magnitude is None and all(both):
        sizes = [1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0 for m in both if m]
        magnitude = sizes[0] / sizes[1]
    return YarnScaling(
        factor, _trained(rope, config), rope.get("beta_fast") or 32, rope.get("beta_slow") or 1,
        rope.get("truncate", True), magnitude,
    )  # fmt: skip


def _llama3(rope: _Given, config: _Given) -> Llama3Scaling:
    trained = _trained(rope, config)
    return Llama3Scaling(rope["factor"], trained, rope["high_freq_factor"], rope["low_freq_factor"])


def _long(rope: _Given, config: _Given) -> LongScaling:
    short, long = tuple(rope["short_factor"]), tuple(rope["long_factor"])
    magnitude = rope.get("attention_factor")
    return LongScaling(short, long, _trained(rope, config), _factor(rope, config), magnitude)


_KINDS = {
    "linear": _linear, "dynamic": _dynamic, "yarn": _yarn, "llama3": _llama3, "longrope": _long,
}  # fmt: skip
