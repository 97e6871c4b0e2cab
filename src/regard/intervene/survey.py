"""Which layers and heads a model has, as far as that can be told before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.errors import InputError, UnavailableError
from regard.hear.hooks import Caller
from regard.hear.names import LayerNames, Spot, has_parts, part_of
from regard.hear.wrapped import check_module
from regard.intervene.here import is_hugging_face
from regard.intervene.names import Heads
from regard.nn import MultiHeadAttention, SelfAttention


@dataclass(frozen=True)
class Survey:
    """A model's places in the order of its modules.

    Recorders name stacks in the order they are heard. Where that matters (several stacks, one of
    them without a name) only what holds in any order is checked.
    """

    named: bool  # whether every stack has a name
    spots: dict[Spot, int | None]  # with their heads, where known
    parts: frozenset[str]  # what stacks may be called, depending on who is heard first

    @classmethod
    def of(cls, model: nn.Module) -> Survey:
        """Look at a model's attention modules."""
        names, attention = LayerNames(has_parts(model)), _attention(model)
        spots = {names.spot(Caller(path)): _heads_of(one) for path, one in attention.items()}
        layers = getattr(getattr(model, "config", None), "num_hidden_layers", None)
        if len(spots) == 1 and isinstance(layers, int):  # one module may serve many layers
            ((first, heads),) = spots.items()
            spots |= {Spot(first.stack, n): heads for n in range(layers)}
        return cls(has_parts(model), spots, frozenset(part_of(path) for path in attention))

    def check(self, heads: Iterable[Heads]) -> None:
        """Raise InputError for a head that the model cannot have."""
        for one in heads if self.spots else ():
            self._check_stack(one)
            self._check_layer(one)
            self._check_head(one)

    def labels(self) -> list[str]:
        """Every head of the layers that say how many they have."""
        return [
            Heads(spot.stack, spot.layer, head).label
            for spot, count in self.spots.items()
            for head in range(count or 0)
        ]

    def _check_stack(self, one: Heads) -> None:
        names = sorted({spot.stack for spot in self.spots})
        if self.named and not one.stack:
            raise InputError(
                f"{one.label}: this model has the stacks {', '.join(names)}; say which, as in "
                f"'{names[0]}.{one.label}'"
            )
        sure = self.named or len(names) == 1
        known = set(names) if sure else {*names, *self.parts}
        if one.stack.lower() not in {name.lower() for name in known}:
            there = ", ".join(name or "one without a name" for name in names)
            raise InputError(
                f"{one.label}: there is no stack {one.stack!r}; this model has {there}: "
                f"{_first_label(names[0])!r} is a head"
            )

    def _check_layer(self, one: Heads) -> None:
        layers = sorted({spot.layer for spot in self._own(one)})
        if one.layer is not None and one.layer not in layers:
            raise InputError(
                f"{one.label}: layer {one.layer} does not exist; this model has {listed(layers)}"
            )

    def _check_head(self, one: Heads) -> None:
        own = {s: n for s, n in self._own(one).items() if one.layer in (None, s.layer)}
        counts = [count for count in own.values() if count is not None]
        if one.head is not None and len(counts) == len(own) and one.head >= max(counts):
            raise InputError(
                f"{one.label}: head {one.head} does not exist; this layer has 0–{max(counts) - 1}"
            )

    def _own(self, one: Heads) -> dict[Spot, int | None]:
        """The places of its stack; all of them where names may turn out otherwise."""
        own = {s: n for s, n in self.spots.items() if s.stack.lower() == one.stack.lower()}
        return own if self.named and own else self.spots


def check_model(model: Any) -> None:
    """Raise where a knock-out would be wrong, or would be for nothing."""
    check_module(model)
    for name, module in model.named_modules():
        if getattr(module, "gradient_checkpointing", False) and module.training:
            raise UnavailableError(
                f"{name or 'the model'} has gradient checkpointing switched on, which runs layers "
                "again when the knock-out is over; call model.gradient_checkpointing_disable()"
            )


def listed(numbers: list[int]) -> str:
    """Numbers for people: 0–29, or 0, 4, 8 where some are missing."""
    if numbers and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]} alone"
    return ", ".join(map(str, numbers)) or "none"


def _first_label(stack: str) -> str:
    return Heads(stack, 0, 0).label


def _attention(model: nn.Module) -> dict[str, nn.Module]:
    """Modules that attend, by path."""
    if is_hugging_face(model):
        from regard.huggingface.families import sight

        return sight(model).seen
    kinds = (MultiHeadAttention, SelfAttention)
    return {path: module for path, module in model.named_modules() if isinstance(module, kinds)}


def _heads_of(module: nn.Module) -> int | None:
    """How many heads; None where the module does not say."""
    if isinstance(module, SelfAttention):
        return 1
    if isinstance(module, MultiHeadAttention):
        return module.w_q.out_features // module.head_dim
    told = [
        getattr(module, "num_heads", None),
        getattr(getattr(module, "config", None), "num_attention_heads", None),
    ]
    return next((count for count in told if isinstance(count, int)), None)
