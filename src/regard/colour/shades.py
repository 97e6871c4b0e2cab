"""Shares of a scale as colours: dark violet, blue, green, bright yellow.

Lightness rises evenly along the palette and blue gives way to yellow all the way, so it reads
without red and green, in grey, and on paper. Every lookup clamps: nothing is brighter than 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEPS: Final = 256
_LIGHTNESS = (0.20, 0.96)
_CHROMA = (0.11, 0.17)
_HUE = (300.0, 105.0)  # degrees: violet to yellow
_DARK_INK_FROM = 0.179  # luminance from which black has more contrast than white
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of linear red, green, blue

# Oklab (Ottosson 2020): from its axes to the cones' responses, cubed, and on to linear sRGB.
_TO_CONES = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_LINEAR = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def codes(shares: ArrayLike) -> NDArray[np.uint8]:
    """0 … 255 for shares 0 … 1; beyond either end the end. NaN has no colour and is 0."""
    clamped = np.clip(np.nan_to_num(np.asarray(shares, np.float64), nan=0.0), 0.0, 1.0)
    return np.rint(clamped * (STEPS - 1)).astype(np.uint8)


@cache
def palette() -> NDArray[np.uint8]:
    """(256, 3): red, green, blue."""
    part = np.linspace(0.0, 1.0, STEPS)
    light = _between(_LIGHTNESS, part)
    hue = np.deg2rad(_between(_HUE, part))
    chroma = _between(_CHROMA, part)
    for _ in range(STEPS):  # less colour where sRGB has none as strong
        axes = np.stack([light, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
        linear = (axes @ _TO_CONES.T) ** 3 @ _TO_LINEAR.T
        outside = np.any((linear < 0) | (linear > 1), axis=-1)
        chroma = np.where(outside, chroma * 0.98, chroma)
    return np.rint(255 * _encoded(linear)).astype(np.uint8)


def lightness(rgb: ArrayLike) -> NDArray[np.float64]:
    """How light colours look: 0 black, 1 white."""
    return oklab(np.asarray(rgb))[..., 0]


def hexadecimal(code: int) -> str:
    """The colour as matplotlib and SVG spell it: #2a1b4c."""
    red, green, blue = palette()[code]
    return f"#{red:02x}{green:02x}{blue:02x}"


def is_light(code: int) -> bool:
    """Whether black reads better on that colour than white."""
    return bool(_linear(palette()[code]) @ _LUMINANCE >= _DARK_INK_FROM)


def _between(ends: tuple[float, float], part: NDArray[np.float64]) -> NDArray[np.float64]:
    return ends[0] + (ends[1] - ends[0]) * part


def _encoded(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear light as sRGB stores it."""
    light = np.clip(linear, 0.0, 1.0)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def _linear(rgb: NDArray[Any]) -> NDArray[np.float64]:
    """Colours of 0 … 255 as linear light of 0 … 1."""
    share = rgb / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def oklab(rgb: NDArray[Any]) -> NDArray[np.float64]:
    """(…, 3) colours of 0 … 255 on Oklab's axes."""
    cones = np.cbrt(_linear(rgb) @ np.linalg.inv(_TO_LINEAR).T)
    return cones @ np.linalg.inv(_TO_CONES).T
