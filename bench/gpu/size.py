"""One problem that is timed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import regard


@dataclass(frozen=True)
class Size:
    """So many sequences, heads and tokens; one query a sequence where a model is decoding."""

    dim: int
    batch: int
    heads: int
    tokens: int
    causal: bool
    key_heads: int = 0  # as many as heads, unless told
    decoding: bool = False
    some: int = 0  # queries, where there are fewer than keys

    @property
    def queries(self) -> int:
        """How many rows a head has."""
        return 1 if self.decoding else self.some or self.tokens

    @property
    def groups(self) -> int:
        """Query heads a key head."""
        return self.heads // (self.key_heads or self.heads)

    @property
    def work(self) -> float:
        """Floating-point operations of a plain forward."""
        full = 4.0 * self.batch * self.heads * self.queries * self.tokens * self.dim
        return full / 2 if self.causal else full

    @property
    def weights(self) -> int:
        """Bytes of the attention matrix in half precision."""
        return 2 * self.batch * self.heads * self.queries * self.tokens

    @property
    def mask(self) -> regard.Causal | None:
        """Causal, or none."""
        return regard.Causal() if self.causal else None

    def inputs(self, device: str) -> list[Tensor]:
        """Gaussian q, k, v of unit variance."""
        dice = torch.Generator(device=device).manual_seed(self.tokens)
        few = self.key_heads or self.heads
        shapes = ((self.heads, self.queries), (few, self.tokens), (few, self.tokens))
        return [
            torch.randn(
                self.batch, heads, count, self.dim, generator=dice, device=device,
                dtype=torch.bfloat16,
            )
            for heads, count in shapes
        ]  # fmt: skip

    def __str__(self) -> str:
        heads = f"{self.heads}/{self.key_heads}" if self.groups > 1 else str(self.heads)
        kind = "decode" if self.decoding else "causal" if self.causal else "full"
        rows = f"{self.some}×" if self.some else ""
        return f"d{self.dim} {self.batch}×{heads}×{rows}{self.tokens} {kind}"
