"""A family as a value, and which one a configuration is of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.errors import UnavailableError
from regard.nn.config import StackConfig
from regard.nn.encoder import Encoder
from regard.nn.families import bert, llama
from regard.nn.language_model import LanguageModel


@dataclass(frozen=True)
class Family:
    """Models whose files have one layout."""

    kinds: tuple[str, ...]  # what their configurations call themselves
    configure: Callable[[Mapping[str, Any]], StackConfig]
    names: tuple[tuple[str, str], ...]  # their tensors' names → ours, piece by piece, in order
    left_out: str  # pattern of tensors that have no place here
    prepare: Callable[[dict[str, Tensor]], dict[str, Tensor]]  # what names alone do not do
    build: Callable[[Any], nn.Module]

    def renamed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors under our names."""
        found: dict[str, Tensor] = {}
        for name, tensor in self.prepare(dict(tensors)).items():
            if re.search(self.left_out, name):
                continue
            for old, new in self.names:
                name = re.sub(old, new, name)
            found[name] = tensor
        return found


_FAMILIES = (
    Family(llama.KINDS, llama.configure, llama.NAMES, llama.LEFT_OUT, llama.prepare, LanguageModel),
    Family(bert.KINDS, bert.configure, bert.NAMES, bert.LEFT_OUT, bert.prepare, Encoder),
)


def family_of(config: Mapping[str, Any]) -> Family:
    """By the configuration's own `model_type`."""
    kind = config.get("model_type")
    for family in _FAMILIES:
        if kind in family.kinds:
            return family
    known = ", ".join(name for family in _FAMILIES for name in family.kinds)
    raise UnavailableError(
        f"regard.nn cannot build a {kind!r}; it knows {known}. regard.models.load runs any model "
        "of transformers"
    )
