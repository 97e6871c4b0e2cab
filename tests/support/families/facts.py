"""What a model's configuration says about the inputs it takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import PreTrainedConfig

Inputs: TypeAlias = dict[str, Any]

BATCH, TOKENS = 2, 11
_TEXT_FROM = 64  # tokens below are special ones


def parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it, the outer ones first."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        if isinstance(part := getattr(config, name, None), PreTrainedConfig):
            yield from parts(part)


@dataclass
class Facts:
    """A model, seen from outside; every tensor comes from one seed."""

    model: Any
    dice: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(1))

    @property
    def config(self) -> Any:
        """The whole model's."""
        return self.model.config

    @property
    def takes(self) -> dict[str, bool]:
        """The names that `forward` takes → whether it must be given them."""
        known = inspect.signature(self.model.forward).parameters.values()
        return {
            one.name: one.default is one.empty
            for one in known
            if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        }

    def find(self, *names: str, default: Any = None) -> Any:
        """The first of these fields that any part of the configuration has."""
        for name in names:
            for part in parts(self.config):
                if (value := getattr(part, name, None)) is not None:
                    return value
        return default

    def with_fields(self, *names: str) -> Any:
        """The innermost part of the configuration that has one of these fields."""
        found = [p for p in parts(self.config) if any(hasattr(p, name) for name in names)]
        return found[-1] if found else self.config

    @property
    def vocabulary(self) -> int:
        """The smallest of all parts' vocabularies: a token of it is one everywhere."""
        sizes = [getattr(part, "vocab_size", None) for part in parts(self.config)]
        return min((size for size in sizes if isinstance(size, int) and size > 16), default=128)

    def ids(self, tokens: int = TOKENS, vocabulary: int | None = None) -> Tensor:
        """(batch, tokens): ordinary tokens, no special one among them."""
        top = vocabulary or self.vocabulary
        low = min(_TEXT_FROM, top // 2)
        return torch.randint(low, top, (BATCH, tokens), generator=self.dice)

    def normal(self, *shape: int) -> Tensor:
        """Numbers around 0, such as those that images and spectra are scaled to."""
        return torch.randn(*shape, generator=self.dice)
