"""A matrix as a picture: two cells to a character where there are colours, signs where not.

▀  upper cell in ink, lower cell behind it; 64×64 cells take 32 lines
·  a cell that is masked
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.colour.shades import codes
from regard.draw.palette import colour, ramp_sign
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells, label, letters, padded

LABELLED = 40  # tokens an axis, up to which each has its text
_ROW_LABEL = 12  # cells
_COLUMN_LABEL = 7  # lines
_TICK_EVERY = 8  # lines of a map
_LARGEST_ZOOM = 4  # few cells are drawn larger
_HIDDEN = -1


@dataclass(frozen=True)
class Axis:
    """Which tokens the cells of one side stand for."""

    start: int = 0
    cell: int = 1  # tokens a cell
    tokens: Sequence[str] | None = None  # their texts, one a cell
    zoom: int = 1  # squares a cell is drawn with

    def at(self, n: int) -> str:
        """The position where square n begins."""
        return str(self.start + n * self.cell // self.zoom)


def largest_side(paper: Paper) -> int:
    """How many cells a side a map that is not labelled may have, to be seen at one glance."""
    across, lines = widest_side(paper), max(paper.height - 14, 12)
    return max(min(across, 2 * lines) if paper.colours != "none" else min(across // 2, lines), 8)


def widest_side(paper: Paper) -> int:
    """How many cells a side fit between the edges, however far down they go."""
    return paper.width - _gutter_width(10**5)


def heat_map(shares: ArrayLike, rows: Axis, keys: Axis, paper: Paper) -> list[StyledLine]:
    """The cells (rows, keys), each a share of its scale; NaN is masked. Tokens label the axes
    where there is room, positions otherwise."""
    given = np.asarray(shares, np.float64)
    if not given.size:
        return []
    shades = np.where(np.isnan(given), _HIDDEN, codes(given).astype(np.int16))
    wide = _labelled_width(shades.shape, rows, keys, paper)
    if wide:
        return _labelled(shades, rows, keys, paper, wide)
    draw = _signs if paper.colours == "none" else _halves
    zoom = max(min(largest_side(paper) // max(shades.shape), _LARGEST_ZOOM), 1)
    large = shades.repeat(zoom, axis=0).repeat(zoom, axis=1)
    return draw(large, replace(rows, zoom=zoom), replace(keys, zoom=zoom), paper)


def _labelled_width(shape: tuple[int, ...], rows: Axis, keys: Axis, paper: Paper) -> int:
    """Characters a cell, 0 where tokens cannot label this map."""
    known = rows.tokens is not None and keys.tokens is not None
    if not known or max(shape) > LABELLED:
        return 0
    room = (paper.width - _ROW_LABEL - 1) // max(shape[1], 1)
    return min(room, 2)


def _labelled(
    shades: NDArray[np.int16], rows: Axis, keys: Axis, paper: Paper, wide: int
) -> list[StyledLine]:
    names = [label(token, _ROW_LABEL, paper) for token in rows.tokens or ()]
    left = max(map(cells, names), default=0)
    lines = [
        [(" " * (left + 1) + text, "dim")] for text in _stacked(keys.tokens or (), wide, paper)
    ]
    for name, row in zip(names, shades, strict=True):
        line: StyledLine = [(padded(name, left, right=True) + " ", "dim")]
        lines.append(line + merged([_cell(int(shade), wide, paper) for shade in row]))
    return lines


def _stacked(tokens: Sequence[str], wide: int, paper: Paper) -> list[str]:
    """The tokens from top to bottom, one letter a line, ending just above their columns."""
    columns = [letters(label(token, 2 * _COLUMN_LABEL, paper)) for token in tokens]
    columns = [
        column if len(column) <= _COLUMN_LABEL else [*column[: _COLUMN_LABEL - 1], paper.ellipsis]
        for column in columns
    ]
    high = max(map(len, columns), default=0)
    blank = [" "]
    return [
        "".join(_narrow((blank * (high - len(c)) + c)[n], wide, paper) for c in columns)
        for n in range(high)
    ]


def _narrow(letter: str, wide: int, paper: Paper) -> str:
    """The letter in one cell of the map; a wide letter may not fit."""
    return padded(letter if cells(letter) <= wide else paper.sign("□", "?"), wide)


def _cell(shade: int, wide: int, paper: Paper) -> tuple[str, str]:
    if shade == _HIDDEN:
        return padded(paper.hidden, wide), "dim"
    if paper.colours == "none":
        return ramp_sign(shade) * wide, ""
    return "█" * wide, colour(shade, paper.colours)  # blanks at the end of a line would be lost


def _signs(shades: NDArray[np.int16], rows: Axis, keys: Axis, paper: Paper) -> list[StyledLine]:
    """Two signs a cell, so that a square looks square; one where two are too many."""
    left = gutter(rows, len(shades))
    wide = 2 if cells(left[0]) + 2 * shades.shape[1] <= paper.width else 1
    lines = [
        [(start, "dim"), *merged([_cell(int(shade), wide, paper) for shade in row])]
        for start, row in zip(left, shades, strict=True)
    ]
    return [*lines, *ticks(keys, shades.shape[1], wide, left[0], paper)]


def _halves(shades: NDArray[np.int16], rows: Axis, keys: Axis, paper: Paper) -> list[StyledLine]:
    left = gutter(rows, len(shades), step=2)
    if len(shades) % 2:
        nothing = np.full((1, shades.shape[1]), _HIDDEN, np.int16)
        shades = np.concatenate([shades, nothing])
    lines = []
    for start, upper, lower in zip(left, shades[::2], shades[1::2], strict=True):
        pairs = zip(upper.tolist(), lower.tolist(), strict=True)
        lines.append([(start, "dim"), *merged([_half(a, b, paper) for a, b in pairs])])
    return [*lines, *ticks(keys, shades.shape[1], 1, left[0], paper)]


def _half(upper: int, lower: int, paper: Paper) -> tuple[str, str]:
    """One character for two cells, one above the other."""
    if upper == lower == _HIDDEN:
        return paper.hidden, "dim"
    if lower == _HIDDEN:
        return "▀", colour(upper, paper.colours)
    if upper == _HIDDEN:
        return "▄", colour(lower, paper.colours)
    return "▀", f"{colour(upper, paper.colours)} on {colour(lower, paper.colours)}"


def merged(pieces: list[tuple[str, str]]) -> StyledLine:
    """Neighbours of one style as one piece."""
    line: StyledLine = []
    for text, style in pieces:
        if line and line[-1][1] == style:
            line[-1] = line[-1][0] + text, style
        else:
            line.append((text, style))
    return line


def _gutter_width(largest: int) -> int:
    return len(str(largest)) + 1


def gutter(rows: Axis, count: int, step: int = 1) -> list[str]:
    """What stands left of each line: the position of its first row, every few lines."""
    width = _gutter_width(int(rows.at(max(count - 1, 0))))
    starts = [rows.at(n) if n // step % _TICK_EVERY == 0 else "" for n in range(0, count, step)]
    return [start.rjust(width - 1) + " " for start in starts]


def ticks(keys: Axis, count: int, wide: int, left: str, paper: Paper) -> list[StyledLine]:
    """Positions of keys below the map, as many as fit without touching."""
    line = ""
    for n in range(0, count, _TICK_EVERY):
        at, text = len(left) + n * wide, keys.at(n)
        if len(line) < at and at + len(text) <= paper.width:
            line = line.ljust(at) + text
    return [[(line, "dim")]]
