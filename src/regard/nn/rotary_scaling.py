"""How rotary frequencies are slowed down, so that a model reads further than it was trained to.

Each is a value that gives the frequencies of a head, as the Llama family defines them:

    LinearScaling    all slower by one factor
    DynamicScaling   a larger base, the longer the text (NTK)
    YarnScaling      slow dimensions slower, fast ones as they were, a ramp between
    Llama3Scaling    the same idea, with the ramp over wavelengths
    LongScaling      one factor per dimension, of one list for short texts and one for long ones
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError, ShapeError


def plain_frequencies(dim: int, base: float, device: torch.device | None = None) -> Tensor:
    """(dim/2,): radians per position of each pair, in double precision."""
    pairs = torch.arange(0, dim, 2, dtype=torch.float64, device=device)
    return base ** (-pairs / dim)


class RotaryScaling(ABC):
    """A rule for frequencies."""

    @property
    def magnitude(self) -> float:
        """The factor applied to rotated queries and keys."""
        return 1.0

    @abstractmethod
    def frequencies(
        self, dim: int, base: float, tokens: int, device: torch.device | None = None
    ) -> Tensor:
        """(dim/2,): radians per position in a text of so many tokens, in double precision."""


@dataclass(frozen=True)
class LinearScaling(RotaryScaling):
    """Every frequency divided by `factor`: positions are squeezed together."""

    factor: float

    def __post_init__(self) -> None:
        _check(self, factor=self.factor)

    def frequencies(
        self, dim: int, base: float, tokens: int, device: torch.device | None = None
    ) -> Tensor:
        """The plain ones ÷ factor."""
        return plain_frequencies(dim, base, device) / self.factor


@dataclass(frozen=True)
class DynamicScaling(RotaryScaling):
    """The base grows with texts longer than `trained_tokens` (dynamic NTK)."""

    factor: float
    trained_tokens: int

    def __post_init__(self) -> None:
        _check(self, factor=self.factor, trained_tokens=self.trained_tokens)

    def frequencies(
        self, dim: int, base: float, tokens: int, device: torch.device | None = None
    ) -> Tensor:
        """The plain ones up to the trained length, of a larger base beyond."""
        if dim < 4:
            raise ShapeError(f"DynamicScaling needs at least 4 dimensions to turn, given {dim}")
        longer = max(tokens, self.trained_tokens) / self.trained_tokens
        stretch = self.factor * longer - (self.factor - 1)
        return plain_frequencies(dim, base * stretch ** (dim / (dim - 2)), device)


@dataclass(frozen=True)
class YarnScaling(RotaryScaling):
    """Dimensions that turn less than `slow` times in `trained_tokens` are slowed by `factor`,
    those that turn more than `fast` times stay, with a ramp between (YaRN)."""

    factor: float
    trained_tokens: int
    fast: float = 32.0
    slow: float = 1.0
    whole_dimensions: bool = True  # the ramp begins and ends at whole dimensions
    given_magnitude: float | None = None

    def __post_init__(self) -> None:
        _check(self, factor=self.factor, trained_tokens=self.trained_tokens)
        _check(self, fast=self.fast, slow=self.slow)

    @property
    def magnitude(self) -> float:
        """0.1·log(factor) + 1 where none is given: it keeps the scores as sharp as before."""
        if self.given_magnitude is not None:
            return self.given_magnitude
        return 1.0 if self.factor <= 1 else 0.1 * math.log(self.factor) + 1.0

    def frequencies(
        self, dim: int, base: float, tokens: int, device: torch.device | None = None
    ) -> Tensor:
        """Slowed and plain ones, mixed along the ramp."""
        first, last = (self._turning(turns, dim, base) for turns in (self.fast, self.slow))
        if self.whole_dimensions:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, dim - 1)
        last = last + 0.001 if first == last else last  # a step, not a division by zero
        number = torch.arange(dim // 2, dtype=torch.float64, device=device)
        slowed = ((number - first) / (last - first)).clamp(0, 1)
        plain = plain_frequencies(dim, base, device)
        return plain / self.factor * slowed + plain * (1 - slowed)

    def _turning(self, turns: float, dim: int, base: float) -> float:
        """The dimension that turns so often within the trained length."""
        wavelength = self.trained_tokens / (turns * 2 * math.pi)
        return dim * math.log(wavelength) / (2 * math.log(base))


@dataclass(frozen=True)
class Llama3Scaling(RotaryScaling):
    """Wavelengths longer than trained_tokens ÷ slow are slowed by `factor`, those shorter than
    trained_tokens ÷ fast stay, with a ramp between (Llama 3.1)."""

    factor: float
    trained_tokens: int
    fast: float = 4.0
    slow: float = 1.0

    def __post_init__(self) -> None:
        _check(self, factor=self.factor, trained_tokens=self.trained_tokens)
        if not 0 < self.slow < self.fast:
            raise InputError(f"{self}: give 0 < slow < fast, counted in turns")

    def frequencies(
        self, dim: int, base: float, tokens: int, device: torch.device | None = None
    ) -> Tensor:
        """Slowed and plain ones, mixed along the ramp."""
        plain = plain_frequencies(dim, base, device)
        turns = self.trained_tokens * plain / (2 * math.pi)
        kept = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return plain / self.factor * (1 - kept) + plain * kept


@dataclass(frozen=True)
class LongScaling(RotaryScaling):
    """Each frequency ÷ its own factor, which comes from `short` up to `trained_tokens` and from
    `long` beyond (LongRoPE)."""

    short: tuple[float, ...]
    long: tuple[float, ...]
    trained_tokens: int
    factor: float = 1.0  # how much further the model is to read
    given_magnitude: float | None = None

    def __post_init__(self) -> None:
        _check(self, factor=self.factor, trained_tokens=self.trained_tokens)
        object.__setattr__(self, "short", tuple(self.short))
        object.__setattr__(self, "long", tuple(self.long))

    @property
    def magnitude(self) -> float:
        """√(1 + log factor ÷ log trained_tokens) where none is given."""
        if self.given_magnitude is not None:
            return self.given_magnitude
        if self.factor <= 1:
            return 1.0
        return math.sqrt(1 + math.log(self.factor) / math.log(self.trained_tokens))

    def frequencies(
        self, dim: int, base: float, tokens: int, device: torch.device | None = None
    ) -> Tensor:
        """The plain ones ÷ the factors of this length."""
        factors = self.long if tokens > self.trained_tokens else self.short
        if len(factors) != dim // 2:
            raise ShapeError(
                f"LongScaling has {len(factors)} factors, {dim} dimensions turn in pairs; give "
                f"{dim // 2} factors"
            )
        each = torch.tensor(factors, dtype=torch.float64, device=device)
        return plain_frequencies(dim, base, device) / each


def _check(scaling: RotaryScaling, **numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise InputError(f"{type(scaling).__name__}({name}={number!r}): give a number above 0")
