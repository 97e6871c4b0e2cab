"""Pictures of attention with matplotlib: numbers in, a Figure out. Nothing here prints.

recorded   a recording's own pictures
lettering  tokens as they may be drawn, and how wide they are
sheet      a figure with its title, its meaning, and room between them, light or dark; as PNG or SVG
ticks      what stands along an axis
legend     the colour bar
maps       a head's matrix
grids      one number a head
curves     entropy by layer
rows       one row of a head
over       a row or column over the pictures it looks at
"""

from __future__ import annotations

from regard.display import Style
from regard.plot.curves import entropy
from regard.plot.grids import grid
from regard.plot.maps import head_map
from regard.plot.rows import row
from regard.plot.sheet import FORMATS, About, format_of, write_picture
from regard.views.text import CAVEAT

__all__ = [
    "CAVEAT",
    "FORMATS",
    "About",
    "Style",
    "entropy",
    "format_of",
    "grid",
    "head_map",
    "row",
    "write_picture",
]
