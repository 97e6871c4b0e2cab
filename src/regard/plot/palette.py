"""Shares of a scale as colours, the same ones as on a terminal, and what surrounds them.

Dark violet, blue, green, bright yellow: lightness rises evenly and blue gives way to yellow all
the way, so it reads without red and green, in grey, and on paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["DARK", "LIGHT", "Theme", "codes", "hexadecimal", "is_light", "palette"]

_STEPS: Final = 256
# Lightness, chroma, and hue in radians, at the low end and at the high one, in Oklab.
_ENDS: Final = np.array([[0.20, 0.11, np.deg2rad(300.0)], [0.96, 0.17, np.deg2rad(105.0)]])
_DARK_INK_FROM: Final = 0.179  # luminance from which black has more contrast than white
_LUMINANCE: Final = np.array([0.2126, 0.7152, 0.0722])  # of linear red, green, blue

# Oklab (Ottosson 2020): from its axes to the cones' responses, cubed, and on to linear sRGB.
_TO_CONES: Final = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_LINEAR: Final = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


@dataclass(frozen=True)
class Theme:
    """The colours around the picture. `lines` are Okabe and Ito's, which everybody tells apart."""

    paper: str
    ink: str
    dim: str  # remarks and ticks
    rule: str  # frames and grid lines
    hidden: str  # cells that are masked, or were not recorded
    lines: tuple[str, ...]


LIGHT = Theme(
    "#ffffff", "#16171a", "#5c5f66", "#b4b7bd", "#e2e3e6",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
)  # fmt: skip
DARK = Theme(
    "#15161a", "#eceef2", "#a6a9b0", "#565961", "#3c3c3e",
    ("#56b4e9", "#e69f00", "#2dc79b", "#e39ac3"),
)  # fmt: skip


def codes(shares: ArrayLike) -> NDArray[np.uint8]:
    """0 … 255 for shares 0 … 1; beyond either end the end. NaN has no colour and is 0."""
    clamped = np.clip(np.nan_to_num(np.asarray(shares, np.float64), nan=0.0), 0.0, 1.0)
    return np.rint(clamped * (_STEPS - 1)).astype(np.uint8)


@cache
def palette() -> NDArray[np.uint8]:
    """(256, 3): red, green, blue."""
    part = np.linspace(0.0, 1.0, _STEPS)[:, None]
    light, chroma, hue = (_ENDS[0] + (_ENDS[1] - _ENDS[0]) * part).T
    for _ in range(_STEPS):  # less colour where sRGB has none as strong
        axes = np.stack([light, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
        linear = (axes @ _TO_CONES.T) ** 3 @ _TO_LINEAR.T
        outside = np.any((linear < 0) | (linear > 1), axis=-1)
        chroma = np.where(outside, chroma * 0.98, chroma)
    linear = np.clip(linear, 0.0, 1.0)
    stored = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(255 * stored).astype(np.uint8)


def hexadecimal(code: int) -> str:
    """The colour as matplotlib and SVG spell it: #2a1b4c."""
    red, green, blue = palette()[code]
    return f"#{red:02x}{green:02x}{blue:02x}"


def is_light(code: int) -> bool:
    """Whether black reads better on that colour than white."""
    share = palette()[code] / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return bool(linear @ _LUMINANCE >= _DARK_INK_FROM)
