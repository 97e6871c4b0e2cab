"""From values to shares of a scale, and the line that says which scale it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.draw.palette import RAMP, codes, colour
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells, short

__all__ = ["TIMES_UNIFORM", "Scale", "linear", "scale_lines"]

_SWATCH = 16  # cells of the legend


@dataclass(frozen=True)
class Scale:
    """`low` is the first colour and `high` the last; what lies beyond has the end's."""

    name: str
    low: float
    high: float
    is_log: bool = False

    def shares(self, values: ArrayLike) -> NDArray[np.float64]:
        """0 … 1 between the ends; NaN stays NaN."""
        given = np.asarray(values, np.float64)
        if self.is_log:
            with np.errstate(divide="ignore"):  # nothing at all lies below every scale
                given = np.log(np.maximum(given, 0.0))
        low, high = (np.log(end) if self.is_log else end for end in (self.low, self.high))
        if not high > low:
            return np.where(np.isnan(given), np.nan, np.where(given > low, 1.0, 0.0))
        return np.clip((given - low) / (high - low), 0.0, 1.0)


# How many times more than if a row looked at all its keys alike: 1 in the middle of nowhere.
TIMES_UNIFORM = Scale("× uniform", 0.1, 100.0, is_log=True)


def linear(name: str, values: ArrayLike) -> Scale:
    """From the smallest of the values, or from 0 where that is not far, to their largest."""
    given = np.asarray(values, np.float64)
    finite = given[np.isfinite(given)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return Scale(name, 0.0 if 0.0 <= low < high / 4 else low, high)


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
