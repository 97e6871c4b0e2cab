"""Drawing on a terminal: numpy arrays in, styled lines out. Nothing here prints.

paper      what is drawn on: width, colours, signs
spelling   tokens and numbers as they may be shown
palette    shares of a scale as colours or signs
scale      values as shares, and the line that says how
heat       a matrix as a picture
over       patches over the picture they are parts of
values     a small region in figures
grid       one number a head, layers by heads
passage    a row as shaded text
table      columns that line up; bars and profiles inside a line
finish     lines cut to the paper, and made safe
pages      whole answers about a recording, as lines and as JSON
"""

from __future__ import annotations

from regard.draw.finish import finished, wrapped
from regard.draw.grid import head_grid
from regard.draw.heat import Axis, heat_map, largest_side, widest_side
from regard.draw.paper import Paper, StyledLine, paper_of, plain
from regard.draw.passage import Passage, shaded_text
from regard.draw.scale import scale_lines
from regard.draw.table import Column, aligned, bar, binned, spark, weight_table
from regard.draw.values import value_table

__all__ = [
    "Axis",
    "Column",
    "Paper",
    "Passage",
    "StyledLine",
    "aligned",
    "bar",
    "binned",
    "finished",
    "head_grid",
    "heat_map",
    "largest_side",
    "paper_of",
    "plain",
    "scale_lines",
    "shaded_text",
    "spark",
    "value_table",
    "weight_table",
    "widest_side",
    "wrapped",
]
