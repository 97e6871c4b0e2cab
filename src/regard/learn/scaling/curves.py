"""Curves in a log-log frame of text: in braille, or in letters where only ASCII is safe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from regard.learn.text import StyledLine

_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_GUTTER, _LEGEND, _HEIGHT, _DECADES = 7, 13, 14, 14


@dataclass(frozen=True)
class Curve:
    """A named line through (d_k, value) points; `mark` draws it where braille cannot."""

    name: str
    mark: str
    style: str
    points: tuple[tuple[float, float], ...]


def plot(lines: Sequence[Curve], *, width: int = 80, ascii_only: bool = False) -> list[StyledLine]:
    """The curves in one log-log frame, each named at its right end."""
    frame = _Frame(lines, width - _GUTTER - _LEGEND, ascii_only)
    for line in lines:
        frame.draw(line)
    return [*frame.rows(lines), *frame.axis(lines)]


class _Frame:
    """A grid of cells; each cell has 2 × 4 dots in braille and one in ASCII."""

    def __init__(self, lines: Sequence[Curve], width: int, ascii_only: bool) -> None:
        self.width, self.ascii_only = width, ascii_only
        self.across, self.down = (1, 1) if ascii_only else (2, 4)
        xs = [math.log10(x) for line in lines for x, _ in line.points]
        ys = [math.log10(y) for line in lines for _, y in line.points if y > 0]
        self.left, self.right = min(xs), max(xs)
        self.top = math.ceil(max(ys))
        lowest = math.floor(min(ys))
        self.bottom = min(max(lowest, self.top - _DECADES), self.top - 1)
        self.clipped = lowest < self.bottom
        self.cells: dict[tuple[int, int], tuple[int, Curve]] = {}

    def column(self, x: float) -> float:
        """Where a d_k stands, in dots from the left."""
        share = (math.log10(x) - self.left) / (self.right - self.left or 1.0)
        return share * (self.width * self.across - 1)

    def row(self, y: float) -> float:
        """Where a value stands, in dots from the top; too small a value stands on the floor."""
        level = max(math.log10(y), self.bottom) if y > 0 else self.bottom
        share = (self.top - level) / (self.top - self.bottom)
        return share * (_HEIGHT * self.down - 1)

    def draw(self, line: Curve) -> None:
        """Straight between its points."""
        dots = [(self.column(x), self.row(y)) for x, y in line.points]
        for (x0, y0), (x1, y1) in pairwise(dots):
            count = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
            for i in range(count + 1):
                self._dot(
                    round(x0 + (x1 - x0) * i / count), round(y0 + (y1 - y0) * i / count), line
                )

    def _dot(self, x: int, y: int, line: Curve) -> None:
        cell = (y // self.down, x // self.across)
        bits = 0 if self.ascii_only else _BRAILLE[x % 2][y % 4]
        before, owner = self.cells.get(cell, (0, line))
        # Letters cannot overlap as dots do: where two curves share a row, they take turns.
        shown = owner if self.ascii_only and x % 2 else line
        self.cells[cell] = (before | bits, shown)

    def rows(self, lines: Sequence[Curve]) -> list[StyledLine]:
        """The picture, with powers of ten on the left and the names on the right."""
        ticks = {self._cell_of(10.0**d): d for d in range(self.bottom, self.top + 1, self._step())}
        names = self._names(lines)
        return [
            [(self._tick(ticks.get(r)), "dim"), *self._picture(r), *names.get(r, [])]
            for r in range(_HEIGHT)
        ]

    def _step(self) -> int:
        return 1 if self.top - self.bottom <= 7 else 2

    def _cell_of(self, y: float) -> int:
        return round(self.row(y)) // self.down

    def _tick(self, decade: int | None) -> str:
        wall = "|" if self.ascii_only else "│"
        if decade is None:
            return " " * (_GUTTER - 1) + wall
        power = f"1e{decade}" if self.ascii_only else "10" + str(decade).translate(_SUPERSCRIPT)
        if decade == self.bottom and self.clipped:
            return (("<" if self.ascii_only else "≤") + power).rjust(_GUTTER - 1) + wall
        return power.rjust(_GUTTER - 2) + " " + wall

    def _picture(self, row: int) -> StyledLine:
        cells = [self._cell(row, column) for column in range(self.width)]
        runs = groupby(cells, key=lambda cell: cell[1])
        return [("".join(text for text, _ in run), style) for style, run in runs]

    def _cell(self, row: int, column: int) -> tuple[str, str]:
        if (row, column) not in self.cells:
            return " ", ""
        bits, line = self.cells[row, column]
        return line.mark if self.ascii_only else chr(0x2800 + bits), line.style

    def _names(self, lines: Sequence[Curve]) -> dict[int, StyledLine]:
        """Each name beside the end of its curve, or in the nearest row that is still free."""
        names: dict[int, StyledLine] = {}
        for line in sorted(lines, key=lambda line: -line.points[-1][1]):
            wanted = self._cell_of(line.points[-1][1])
            free = [(abs(r - wanted), -r) for r in range(_HEIGHT) if r not in names]
            mark = f"{line.mark} " if self.ascii_only else ""
            names[-min(free)[1]] = [(f" {mark}{line.name}", line.style)]
        return names

    def axis(self, lines: Sequence[Curve]) -> list[StyledLine]:
        """The floor and the d_k below it, as many as fit."""
        corner, floor = ("+", "-") if self.ascii_only else ("└", "─")
        labels = ""
        for x, _ in lines[0].points:
            start = round(self.column(x)) // self.across - len(f"{x:g}") // 2
            if start >= len(labels) + 1 or not labels:
                labels = labels.ljust(start) + f"{x:.0f}"
        return [
            [(" " * (_GUTTER - 1) + corner + floor * self.width + " d_k", "dim")],
            [(" " * _GUTTER + labels, "dim")],
        ]
