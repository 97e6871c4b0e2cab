"""Rotary positions: each pair of dimensions turns by an angle that grows with the position."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.nn.rotary_scaling import RotaryScaling, plain_frequencies


class Turn(NamedTuple):
    """The rotation of each token's pairs, computed once for all layers of a model."""

    cos: Tensor  # (…, tokens, dim): each pair's cosine at both of its places
    sin: Tensor  # its sine, negative at the first place

    def apply(self, x: Tensor) -> Tensor:
        """(…, tokens, dim), turned: x₁ cos − x₂ sin and x₂ cos + x₁ sin."""
        first, second = x.chunk(2, dim=-1)
        cos, sin = self
        if cos.dtype != x.dtype:  # autocast has narrowed x
            cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        return torch.addcmul(x * cos, torch.cat([second, first], dim=-1), sin)


class Rotary(nn.Module):
    """Rotates q and k so that their dot product depends on their distance alone.

    Dimension n is paired with n + dim/2, as the Llama family does it. `scaling` slows the
    frequencies for texts longer than those of the training; see `rotary_scaling`.
    """

    def __init__(
        self, dim: int, base: float = 10000.0, *, scaling: RotaryScaling | None = None
    ) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise InputError(f"Rotary(dim={dim}); pairs of dimensions turn, so dim must be even")
        self.dim = dim
        self.base = base
        self.scaling = scaling

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(…, tokens, dim) turned by positions start, start + 1, …"""
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise ShapeError(
                f"Rotary({self.dim}) was given {tuple(x.shape)}; it turns (…, tokens, {self.dim})"
            )
        return self.turn(x, start, x.shape[-2]).apply(x)

    def turn(self, like: Tensor, start: int, tokens: int, positions: Tensor | None = None) -> Turn:
        """For `tokens` tokens from `start` on, in the dtype and on the device of `like`.

        positions  (…, tokens), where they do not simply count: they stand at an axis before the
                   heads, so that (batch, tokens) fits queries (batch, heads, tokens, dim)
        """
        # at least in single precision: in half precision far positions would blur, so the
        # frequencies are no buffer that `model.half()` could round
        exact = torch.promote_types(like.dtype, torch.float32)
        frequencies = self.frequencies(start + tokens, like.device).to(exact)
        if positions is None:
            at = torch.arange(start, start + tokens, dtype=exact, device=like.device)
        else:
            at = positions.to(exact).unsqueeze(-2)  # (…, 1, tokens): one axis for the heads
        angles = at[..., None] * frequencies
        size = 1.0 if self.scaling is None else self.scaling.magnitude
        cos, sin = angles.cos(), angles.sin()
        if size != 1.0:
            cos, sin = cos * size, sin * size
        both = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
        return Turn(both[0].to(like.dtype), both[1].to(like.dtype))

    def frequencies(self, tokens: int, device: torch.device | None = None) -> Tensor:
        """(dim/2,): radians per position in a text of so many tokens, in double precision."""
        if self.scaling is None:
            return plain_frequencies(self.dim, self.base, device)
        return self.scaling.frequencies(self.dim, self.base, tokens, device)

    def extra_repr(self) -> str:
        """dim, base and scaling, as they are given."""
        scaled = "" if self.scaling is None else f", scaling={self.scaling}"
        return f"{self.dim}, base={self.base}{scaled}"
