"""Rotary positions: each pair of dimensions turns by an angle that grows with the position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import InputError, ShapeError

__all__ = ["Rotary"]


class Rotary(nn.Module):
    """Turns q and k so that their dot product depends on their distance alone.

    Dimension n is paired with n + dim/2, as the Llama family does it.
    """

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise InputError(f"Rotary(dim={dim}); pairs of dimensions turn, so dim must be even")
        self.dim = dim
        self.base = base

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(…, tokens, dim) turned by positions start, start + 1, …"""
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise ShapeError(
                f"Rotary({self.dim}) was given {tuple(x.shape)}; it turns (…, tokens, {self.dim})"
            )
        angles = self._angles(start, x)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def _angles(self, start: int, x: Tensor) -> Tensor:
        """(tokens, dim/2), at least in single precision: in half precision far positions would
        blur, so the frequencies are no buffer that `model.half()` could round."""
        exact = torch.promote_types(x.dtype, torch.float32)
        pairs = torch.arange(0, self.dim, 2, dtype=exact, device=x.device)
        positions = torch.arange(start, start + x.shape[-2], dtype=exact, device=x.device)
        return positions[:, None] * self.base ** (-pairs / self.dim)

    def extra_repr(self) -> str:
        """dim and base, as they are given."""
        return f"{self.dim}, base={self.base}"
