"""Pictures of attention with matplotlib: numbers in, a Figure out. Nothing here prints.

subject    what a picture needs to know of a head, as protocols
palette    shares of a scale as colours; light and dark sheets
scale      values as shares, and the words that say how
lettering  tokens as they may be drawn, and how wide they are
sheet      a figure with its title, its meaning, and room between them
ticks      what stands along an axis
legend     the colour bar
cells      a head's matrix in cells → maps
grids      one number a head
curves     entropy by layer
row_data   one row of a head → rows
files      a figure as PNG or SVG
"""

from __future__ import annotations

from regard.plot.curves import entropy
from regard.plot.files import FORMATS, format_of, write_picture
from regard.plot.grids import grid
from regard.plot.maps import head_map
from regard.plot.rows import row
from regard.plot.sheet import CAVEAT, Style
from regard.plot.subject import About

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
