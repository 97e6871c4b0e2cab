"""The line that says which scale it is."""

from __future__ import annotations

import numpy as np

from regard.colour.scale import Scale, short
from regard.colour.shades import codes
from regard.draw.palette import RAMP, colour
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells

_SWATCH = 16  # cells of the legend


def scale_lines(scale: Scale, paper: Paper, *remarks: str, legend: bool = True) -> list[StyledLine]:
    """What the colours mean and what a cell is, with a legend, broken where it does not fit."""
    kind = "log" if scale.is_log else "linear"
    ends = f"{short(scale.low)}{paper.dash}{short(scale.high)}"
    name = scale.name.replace("×", paper.times)
    pieces: list[StyledLine] = [[(f"scale: {name}, {kind}, {ends}", "")]]
    pieces += [[(remark, "dim")] for remark in remarks]
    lines: list[StyledLine] = [[]]
    for piece in pieces:
        _add(lines, piece, paper.dot, paper.width)
    if legend:
        _add(lines, _swatch(paper), "  ", paper.width)
    return lines


def _add(lines: list[StyledLine], piece: StyledLine, between: str, width: int) -> None:
    """Behind what is there, or on a line of its own."""
    used = sum(cells(text) for text, _ in lines[-1])
    if lines[-1] and used + cells(between) + sum(cells(text) for text, _ in piece) > width:
        lines.append([])
    lines[-1] += [(between, "dim"), *piece] if lines[-1] else piece


def _swatch(paper: Paper) -> StyledLine:
    """The palette from its low end to its high one."""
    if paper.colours == "none":
        return [(f"[{RAMP}]", "")]
    steps = codes(np.linspace(0.0, 1.0, _SWATCH))
    return [("█", colour(int(step), paper.colours)) for step in steps]
