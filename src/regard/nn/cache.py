"""Keys and values of tokens already seen, so that each new token is projected once."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Grows by concatenation. One cache per layer and sequence."""

    def __init__(self) -> None:
        self.key: Tensor | None = None  # (…, Hkv, tokens so far, D)
        self.value: Tensor | None = None  # (…, Hkv, tokens so far, Dv)

    @property
    def length(self) -> int:
        """How many tokens are held."""
        return 0 if self.key is None else self.key.shape[-2]

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values held so far followed by these; the cache stays as it is."""
        if self.key is None or self.value is None:
            return key, value
        return _join(self.key, key, "keys"), _join(self.value, value, "values")

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append the new tokens' keys and values; returns all of them."""
        self.key, self.value = self.extended(key, value)
        return self.key, self.value


def _join(held: Tensor, new: Tensor, name: str) -> Tensor:
    if (held.shape[:-2], held.shape[-1]) != (new.shape[:-2], new.shape[-1]):
        raise ShapeError(
            f"the cache holds {name} {tuple(held.shape)}, given {tuple(new.shape)}; only the "
            "number of tokens may differ. Make a new KeyValueCache for each layer and sequence"
        )
    return torch.cat([held, new], dim=-2)
