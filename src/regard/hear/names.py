"""What the places of a model are called: its stacks, and the layers within them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from torch import nn

from regard.hear.hooks import Caller

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_CROSS = re.compile(r"cross|encoder_?attn|enc_?dec|encoder_?decoder|multihead_attn", re.IGNORECASE)
_PARTS = ("vision", "image", "audio", "text", "encoder", "decoder")


@dataclass(frozen=True)
class Spot:
    """Where a caller stands: its stack, and its layer within it."""

    stack: str
    layer: int


class LayerNames:
    """Gives every caller a stack and a layer, the same ones each time.

    All paths that differ in their numbers only make one stack. The only stack of a model, or the
    first one heard, has no name; those of encoder-decoders and of models with several towers are
    called by their part: encoder, decoder, cross, vision, text.
    """

    def __init__(self, named: bool) -> None:
        self._named = named  # whether the first stack has a name too
        self._stacks: dict[str, str] = {}  # pattern → name
        self._spots: dict[Caller, Spot] = {}

    def spot(self, caller: Caller) -> Spot:
        """Where this caller stands."""
        found = self._spots.get(caller)
        if found is None:
            stack = self._stack(without_numbers(caller.path.replace("._orig_mod", "")))  # compiled
            found = self._spots[caller] = Spot(stack, self._layer(stack, caller))
        return found

    def _stack(self, pattern: str) -> str:
        if pattern not in self._stacks:
            name = part_of(pattern) if self._named or self._stacks else ""
            if name in self._stacks.values():
                name = pattern.replace("/", "_")
            self._stacks[pattern] = name
        return self._stacks[pattern]

    def _layer(self, stack: str, caller: Caller) -> int:
        """The number in the path, where that is plain and free; else the order of hearing."""
        numbers = _NUMBER.findall(caller.path)
        taken = {spot.layer for spot in self._spots.values() if spot.stack == stack}
        if len(numbers) == 1 and caller.occurrence == 0 and int(numbers[0]) not in taken:
            return int(numbers[0])
        return max(taken, default=-1) + 1


def is_cross(path: str) -> bool:
    """Whether a path says that its queries look at another sequence."""
    return any(_CROSS.search(piece) for piece in path.split(".")[-2:])


def is_cross_module(model: nn.Module, path: str) -> bool:
    """Whether a module's path, or the module itself (diffusers), says so."""
    return is_cross(path) or getattr(model.get_submodule(path), "is_cross_attention", None) is True


def part_of(path: str) -> str:
    """`cross`, or the part of a model a path lies in; "" where it does not say."""
    if is_cross(path):
        return "cross"
    for piece in path.lower().split("."):
        for word in _PARTS:
            if word in piece:
                return word
    return ""


def has_parts(model: nn.Module) -> bool:
    """Whether the model has several stacks, each of which has a name."""
    config = getattr(model, "config", None)
    several = [n for n in ("vision_config", "text_config", "audio_config") if hasattr(config, n)]
    return bool(getattr(config, "is_encoder_decoder", False)) or len(several) > 1


def without_numbers(path: str) -> str:
    """The same for every layer of a stack: layers.3.attention → layers.*.attention."""
    return _NUMBER.sub("*", path)


def stream_of(names: Collection[str], caller: Caller) -> str:
    """Which of these tokens the queries of a place may stand for."""
    return _stream_of(frozenset(names), caller.path)


@lru_cache(maxsize=1024)
def _stream_of(names: frozenset[str], path: str) -> str:
    if part_of(path) in ("vision", "image", "audio"):
        return ""
    in_encoder = any("encoder" in piece for piece in path.split(".")[:-2])
    if in_encoder and "encoder" in names:
        return "encoder"
    return "tokens" if "tokens" in names and (not in_encoder or len(names) == 1) else ""
