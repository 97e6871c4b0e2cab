"""Where a token stands, told in one of four ways.

learned      a vector per position, added to the token's
sinusoidal   a fixed wave per position, added
rotary       queries and keys turn with their position (see rotary)
alibi        scores fall with the distance, at a slope of each head's own
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.nn.config import StackConfig
from regard.nn.rotary import Rotary, Turn
from regard.score import ALiBi


def sinusoidal(
    tokens: int,
    dim: int,
    *,
    start: int = 0,
    base: float = 10000.0,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """(tokens, dim): sines and cosines whose wavelength grows with the dimension.

    Computed in double precision and rounded once to `dtype`, torch's default where not given.
    """
    positions = torch.arange(start, start + tokens, dtype=torch.float64)[:, None]
    frequencies = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    waves = torch.empty(tokens, dim, dtype=torch.float64)
    waves[:, 0::2] = torch.sin(positions * frequencies)
    waves[:, 1::2] = torch.cos(positions * frequencies[: dim // 2])
    return waves.to(torch.get_default_dtype() if dtype is None else dtype)


class LearnedPositions(nn.Module):
    """x + a learned row per position."""

    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tokens, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """(…, tokens, dim); positions (…, tokens) where they do not count from `start`."""
        end = start + x.shape[-2]
        if start < 0:  # a slice would count from the table's end
            raise InputError(f"start={start}; learned positions are counted from 0")
        if end > self.weight.shape[0]:
            raise ShapeError(
                f"{x.shape[-2]} tokens from position {start} on were given; this model has learnt "
                f"{self.weight.shape[0]} positions, so at most {self.weight.shape[0]} tokens fit"
            )
        return x + (self.weight[start:end] if positions is None else self.weight[positions])


class SinusoidalPositions(nn.Module):
    """√dim·x + a wave per position; x is scaled so that the encoding does not dominate it."""

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """(…, tokens, dim); positions (…, tokens) where they do not count from `start`."""
        tokens, dim = x.shape[-2:]
        if positions is None:
            waves = sinusoidal(tokens, dim, start=start, dtype=x.dtype).to(x.device)
        else:
            waves = sinusoidal(start + tokens, dim, dtype=x.dtype).to(x.device)[positions]
        return x * math.sqrt(dim) + waves


def alibi_slopes(heads: int) -> list[float]:
    """One slope per head: powers of 2^(−8/heads), as published; between two powers of two, every
    other slope of the next one fills up."""
    whole = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (n + 1) / whole) for n in range(whole)]
    between = [2 ** (-8 * (n + 1) / (2 * whole)) for n in range(0, 2 * whole, 2)]
    return slopes + between[: heads - whole]


class Positions(nn.Module):
    """All that a stack of blocks knows about positions, of whatever kind."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.table: nn.Module | None = None
        self.rotary: Rotary | None = None
        self.slopes: list[float] | None = None
        if config.positions == "learned":
            self.table = LearnedPositions(config.longest, config.dim)
        elif config.positions == "sinusoidal":
            self.table = SinusoidalPositions()
        elif config.positions == "rotary":
            scaling = config.rotary_scaling
            self.rotary = Rotary(config.width, config.rotary_base, scaling=scaling)
        elif config.positions == "alibi":
            self.slopes = alibi_slopes(config.heads)

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """x (…, tokens, dim) with positions added, where they are of a kind that is added."""
        if self.table is None:
            return x
        return self.table(x, start, positions)

    def turn(self, x: Tensor, start: int, positions: Tensor | None) -> Turn | None:
        """For queries and keys of all layers; None where nothing turns."""
        if self.rotary is None:
            return None
        return self.rotary.turn(x, start, x.shape[-2], positions)

    def bias(self, x: Tensor) -> ALiBi | None:
        """For the scores of all layers; None where nothing is added."""
        if self.slopes is None:
            return None
        exact = torch.promote_types(x.dtype, torch.float32)
        return ALiBi(torch.tensor(self.slopes, dtype=exact, device=x.device))
