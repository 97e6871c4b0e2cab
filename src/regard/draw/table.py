"""Columns of text that line up, and a table of weights with bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.draw.paper import Paper, StyledLine
from regard.draw.spark import bar
from regard.draw.spelling import cells, fitted, padded

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
