"""One number a head: layers downwards, heads across, shaded; cut into blocks where too wide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.colour.scale import Scale, linear
from regard.colour.shades import codes
from regard.draw.palette import shaded
from regard.draw.paper import Paper, StyledLine
from regard.draw.scale import scale_lines

_Numbers: TypeAlias = NDArray[np.float64]

_WIDEST = 6  # characters a head
_BLOCK = 8  # heads; where a layer does not fit, blocks hold a multiple of it


@dataclass(frozen=True)
class _Figures:
    """How the numbers of one grid are written, all alike."""

    width: int  # characters a head, the blank before it included where there is one
    write: Callable[[float], str]
    remark: str = ""


def head_grid(
    values: ArrayLike, name: str, paper: Paper, *, is_share: bool = False
) -> list[StyledLine]:
    """The grid (layers, heads) of a statistic and its scale; NaN is not known.

    `is_share`: the values lie between 0 and 1, and so does the scale.
    """
    given = np.asarray(values, np.float64)
    scale = Scale(name, 0.0, 1.0) if is_share else linear(name, given)
    left = len(f"L{len(given) - 1}") + 1
    figures = _figures(given, paper.width - left, is_share, paper)
    lines: list[StyledLine] = []
    for heads in _blocks(given.shape[1], (paper.width - left) // figures.width):
        lines += [[(" " * left + text, "dim")] for text in _heading(heads, figures.width)]
        for layer, row in enumerate(given[:, heads.start : heads.stop]):
            name_of_layer = f"L{layer}".rjust(left - 1) + " "
            lines.append([(name_of_layer, "dim"), *_cells(row, scale, figures, paper)])
    missing = f"not known: {paper.hidden}" if np.isnan(given).any() else ""
    remarks = [remark for remark in (figures.remark, missing) if remark]
    return [*lines, *scale_lines(scale, paper, *remarks, legend=paper.colours != "none")]


def _blocks(heads: int, fitting: int) -> list[range]:
    """All heads at once, or as many as fit, a round number of them."""
    across = heads if heads <= fitting else max(fitting // _BLOCK * _BLOCK, min(fitting, _BLOCK), 1)
    return [range(start, min(start + across, heads)) for start in range(0, heads, across)]


def _heading(heads: range, width: int) -> list[str]:
    """Numbers of heads above their columns, digits stacked where they do not fit side by side."""
    texts = [str(n) for n in heads]
    longest = max(map(len, texts), default=1)
    if longest < width:
        return ["".join(text.rjust(width) for text in texts)]
    return ["".join(text.rjust(longest)[n].rjust(width) for text in texts) for n in range(longest)]


def _cells(row: _Numbers, scale: Scale, figures: _Figures, paper: Paper) -> StyledLine:
    line: StyledLine = []
    for value, shade in zip(row, codes(scale.shares(row)), strict=True):
        if math.isnan(value):
            line.append((paper.hidden.rjust(figures.width), "dim"))
        else:
            text = figures.write(float(value)).rjust(figures.width)
            line.append((text, shaded(int(shade), paper.colours)))
    return line


def _figures(values: _Numbers, room: int, is_share: bool, paper: Paper) -> _Figures:
    """As many digits as let a layer's heads fit on one line. Shades tell neighbours apart;
    without them a blank must."""
    width = min(max(room // max(values.shape[1], 1), 2), _WIDEST)
    digits = width if paper.colours != "none" and width == 2 else width - 1
    return _share_figures(width, digits) if is_share else _unit_figures(values, width, digits)


def _share_figures(width: int, digits: int) -> _Figures:
    if digits >= 4:
        return _Figures(width, lambda share: f"{share:.2f}")
    if digits == 3:
        return _Figures(width, _without_zero)
    if digits == 2:
        return _Figures(width, lambda share: str(min(round(100 * share), 99)), "in hundredths")
    return _Figures(width, lambda share: str(min(int(10 * share), 9)), "in tenths")


def _without_zero(share: float) -> str:
    return "1.0" if share >= 0.995 else f"{share:.2f}".removeprefix("0")


def _unit_figures(values: _Numbers, width: int, digits: int) -> _Figures:
    """With decimals where there is room, else in units of a power of ten."""
    finite = values[np.isfinite(values)]
    if finite.size and finite.min() < 0:
        digits -= 1  # the sign takes one
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    size = max(math.floor(math.log10(largest)) + 1, 1) if largest > 0 else 1
    places = min(digits - size - 1, 3)
    if size <= digits and largest >= 10.0 ** -max(places - 1, 0):
        return _Figures(width, lambda value: f"{value:.{max(places, 0)}f}")
    exact = math.floor(math.log10(largest)) + 1 if largest > 0 else 0
    unit = 10.0 ** (exact - max(digits, 1))
    return _Figures(width, lambda value: f"{value / unit:.0f}", f"in units of {unit:g}")
