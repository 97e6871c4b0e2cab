"""What numbers look like, on a terminal, in a plot and on a page alike; numpy only.

scale     values → shares of a scale
shades    shares → colours
over      colours over a picture
"""

from __future__ import annotations

from regard.colour.scale import TIMES_UNIFORM, Scale, linear, short, steps, times_uniform_of
from regard.colour.shades import codes, hexadecimal, is_light, lightness, palette

__all__ = [
    "TIMES_UNIFORM",
    "Scale",
    "codes",
    "hexadecimal",
    "is_light",
    "lightness",
    "linear",
    "palette",
    "short",
    "steps",
    "times_uniform_of",
]
