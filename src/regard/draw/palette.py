"""Colours as a terminal takes them, and signs where it has none."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour.shades import STEPS, hexadecimal, is_light, oklab, palette

Colours: TypeAlias = Literal["none", "256", "true"]

# Ink from little to much. No dot among them: a dot says that a key is masked.
RAMP: Final = " :-=+*#%@"


@cache
def xterm() -> NDArray[np.uint8]:
    """(256,): the nearest of a terminal's fixed 240 colours, never darker than the one before."""
    fixed = _fixed_colours()
    wanted, known = oklab(palette()), oklab(fixed)
    chosen, floor = np.zeros(STEPS, np.uint8), -1.0
    for n in range(STEPS):
        distance = np.linalg.norm(known - wanted[n], axis=-1)
        distance[known[:, 0] < floor] = np.inf
        nearest = int(distance.argmin())
        chosen[n], floor = nearest + 16, known[nearest, 0]
    return chosen


def colour(code: int, colours: Colours) -> str:
    """As a style names it."""
    return f"color({xterm()[code]})" if colours == "256" else hexadecimal(code)


def ink(code: int, colours: Colours) -> str:
    """Black or white, whichever reads on that colour."""
    names = ("color(231)", "color(16)") if colours == "256" else ("#ffffff", "#000000")
    return names[is_light(code)]


def shaded(code: int, colours: Colours) -> str:
    """Text on that colour; nothing where there are no colours."""
    return "" if colours == "none" else f"{ink(code, colours)} on {colour(code, colours)}"


def ramp_sign(code: int) -> str:
    """The sign for it where there is no colour."""
    return RAMP[code * len(RAMP) // STEPS]


def _fixed_colours() -> NDArray[np.float64]:
    """Colours 16 … 255 of every 256-colour terminal: a cube of 6×6×6, then 24 greys."""
    levels = np.array([0, 95, 135, 175, 215, 255], np.float64)
    cube = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    greys = np.repeat(8.0 + 10.0 * np.arange(24)[:, None], 3, axis=1)
    return np.concatenate([cube, greys])
