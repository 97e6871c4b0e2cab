"""Columns of text that line up, a table of weights with bars, other small pictures in a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells, fitted, padded

_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = ".:-=+*#@"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int, paper: Paper) -> str:
    """A bar of `width` cells for a share of 1; something is never drawn as nothing."""
    clamped = min(max(share, 0.0), 1.0) if not math.isnan(share) else 0.0
    if paper.is_ascii:
        return "#" * max(round(clamped * width), clamped > 0)
    eighths = max(round(clamped * width * 8), clamped > 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def spark(values: ArrayLike, paper: Paper, high: float | None = None) -> str:
    """One character a value, from 0 up to `high`, by default the largest; NaN is a blank."""
    given = np.asarray(values, np.float64)
    finite = given[np.isfinite(given)]
    top = high if high is not None else float(finite.max()) if finite.size else 0.0
    signs = _ASCII_HEIGHTS if paper.is_ascii else _HEIGHTS
    return "".join(" " if math.isnan(v) else signs[_step(v, top, len(signs))] for v in given)


def binned(values: ArrayLike, most: int) -> NDArray[np.float64]:
    """The means of at most `most` pieces of about equal length; NaN does not count."""
    given = np.asarray(values, np.float64)
    if len(given) <= most:
        return given
    edges = np.linspace(0, len(given), most + 1).astype(np.int64)
    known = ~np.isnan(given)
    sums = np.add.reduceat(np.where(known, given, 0.0), edges[:-1])
    counts = np.add.reduceat(known, edges[:-1], dtype=np.int64)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def _step(value: float, top: float, count: int) -> int:
    """Which sign; the lowest only for (almost) nothing."""
    share = min(max(value / top, 0.0), 1.0) if top > 0 else 0.0
    return min(math.ceil(share * (count - 1) - 0.05), count - 1) if share > 0.005 else 0


_BAR = 20
_GAP = "  "


@dataclass(frozen=True)
class Column:
    """A heading and its texts; numbers stand right."""

    heading: str
    texts: Sequence[str]
    is_number: bool = False


def aligned(columns: Sequence[Column], paper: Paper) -> list[StyledLine]:
    """The columns side by side under their headings; the last is cut at the edge."""
    widths = [max(map(cells, (column.heading, *column.texts))) for column in columns]
    lines: list[StyledLine] = [[(_row(columns, widths, None, paper), "dim")]]
    count = len(columns[0].texts) if columns else 0
    return lines + [[(_row(columns, widths, n, paper), "")] for n in range(count)]


def weight_table(
    columns: Sequence[Column], weights: Sequence[float], paper: Paper
) -> list[StyledLine]:
    """The columns, then a bar for each weight; the longest bar is the largest weight."""
    lines = aligned(columns, paper)
    longest = max(map(_line_cells, lines), default=0)
    room = min(_BAR, paper.width - longest - len(_GAP))
    largest = max(weights, default=0.0)
    if room < 4 or not largest > 0:
        return lines
    for line, weight in zip(lines[1:], weights, strict=True):
        blanks = " " * (longest - _line_cells(line)) + _GAP
        line += [(blanks, ""), (bar(weight / largest, room, paper), "")]
    return lines


def _row(columns: Sequence[Column], widths: Sequence[int], n: int | None, paper: Paper) -> str:
    texts = [
        padded(column.heading if n is None else column.texts[n], width, right=column.is_number)
        for column, width in zip(columns, widths, strict=True)
    ]
    return fitted(_GAP.join(texts).rstrip(), paper.width, paper)


def _line_cells(line: StyledLine) -> int:
    return sum(cells(text) for text, _ in line)
