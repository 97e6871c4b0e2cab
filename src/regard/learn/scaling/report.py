"""What `regard scaling` shows, as lines of (text, style) pieces: a table, a plot, two readings.

Everything fits 80 columns. Where braille and √ cannot be shown, the curves are drawn with letters
and the signs are spelt in ASCII.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from regard.learn.scaling import DEAD, Reading, Temperature
from regard.learn.styled_lines import Line, prose

__all__ = ["Curve", "curves", "intro", "plot", "summary", "table", "warmth"]

_RAW, _DIVIDED = "red", "green"


def intro(keys: int, rows: int, seed: int) -> list[Line]:
    """What is drawn and what is measured."""
    return [
        [("Why scores are divided by √d_k", "bold")],
        [],
        *prose(
            "q and k have unit variance and are drawn fresh at each d_k: "
            f"{keys} keys, {rows} rows, seed {seed}. "
            "The gradient reaching q is the length of ∂L/∂q, row by row, for ∂L/∂weights drawn "
            "unit normal; where the scores are divided it carries the factor 1/√d_k. "
            f"A row is dead when it is below {DEAD:g}."
        ),
        [],
    ]


# Per figure: two lines of heading, the name of the field, and the widths of its two columns.
_FIGURES = (
    ("variance", "of q·k", "variance", 5, 4),
    ("largest", "weight", "largest_weight", 4, 4),
    ("entropy", "(nats)", "entropy", 4, 4),
    ("gradient", "median", "gradient_median", 7, 4),
    ("gradient", "p99", "gradient_p99", 4, 4),
    ("dead", "rows", "dead", 4, 4),
)


def table(readings: Sequence[Reading]) -> list[Line]:
    """One line per d_k: each figure first without the division, then with it."""
    first, second, third = "     ", "     ", "  d_k"
    for upper, lower, _, raw, divided in _FIGURES:
        first += "  " + upper.rjust(raw + 1 + divided)
        second += "  " + lower.rjust(raw + 1 + divided)
        third += "  " + "raw".rjust(raw) + " " + "÷√d".rjust(divided)
    heads: list[Line] = [[(head, "dim")] for head in (first, second, third)]
    return heads + [_row(reading) for reading in readings]


def _row(reading: Reading) -> Line:
    line: Line = [(f"{reading.d_k:>5}", "bold")]
    for _, _, field, raw, divided in _FIGURES:
        show = _percent if field == "dead" else _short
        line.append(("  " + show(getattr(reading.raw, field)).rjust(raw), _RAW))
        line.append((" " + show(getattr(reading.scaled, field)).rjust(divided), _DIVIDED))
    return line


def _short(value: float) -> str:
    """At most five characters, seven for the very small: 0.27, 4096, 2.7e-4."""
    if 0 < value < 0.00995:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


@dataclass(frozen=True)
class Curve:
    """A named line through (d_k, value) points; `mark` draws it where braille cannot."""

    name: str
    mark: str
    style: str
    points: tuple[tuple[float, float], ...]


def curves(readings: Sequence[Reading]) -> list[Curve]:
    """The gradient's median and p99, with and without the division."""

    def curve(name: str, mark: str, side: str, field: str) -> Curve:
        points = tuple((float(r.d_k), getattr(getattr(r, side), field)) for r in readings)
        return Curve(name, mark, _RAW if side == "raw" else _DIVIDED, points)

    return [
        curve("p99 ÷√d", "+", "scaled", "gradient_p99"),
        curve("median ÷√d", "o", "scaled", "gradient_median"),
        curve("p99 raw", "#", "raw", "gradient_p99"),
        curve("median raw", "*", "raw", "gradient_median"),
    ]


_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_GUTTER, _LEGEND, _HEIGHT, _DECADES = 7, 13, 14, 14


def plot(lines: Sequence[Curve], *, width: int = 80, ascii_only: bool = False) -> list[Line]:
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

    def rows(self, lines: Sequence[Curve]) -> list[Line]:
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

    def _picture(self, row: int) -> Line:
        cells = [self._cell(row, column) for column in range(self.width)]
        runs = groupby(cells, key=lambda cell: cell[1])
        return [("".join(text for text, _ in run), style) for style, run in runs]

    def _cell(self, row: int, column: int) -> tuple[str, str]:
        if (row, column) not in self.cells:
            return " ", ""
        bits, line = self.cells[row, column]
        return line.mark if self.ascii_only else chr(0x2800 + bits), line.style

    def _names(self, lines: Sequence[Curve]) -> dict[int, Line]:
        """Each name beside the end of its curve, or in the nearest row that is still free."""
        names: dict[int, Line] = {}
        for line in sorted(lines, key=lambda line: -line.points[-1][1]):
            wanted = self._cell_of(line.points[-1][1])
            free = [(abs(r - wanted), -r) for r in range(_HEIGHT) if r not in names]
            mark = f"{line.mark} " if self.ascii_only else ""
            names[-min(free)[1]] = [(f" {mark}{line.name}", line.style)]
        return names

    def axis(self, lines: Sequence[Curve]) -> list[Line]:
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


def summary(readings: Sequence[Reading]) -> list[Line]:
    """Both words of the note, read off one d_k: 1024 where measured, else the largest."""
    r = next((r for r in readings if r.d_k == 1024), max(readings, key=lambda r: r.d_k))
    raw, divided = r.raw, r.scaled
    median = f"{_short(raw.gradient_median)}, divided {_short(divided.gradient_median)}"
    dead = f"{_percent(raw.dead)} of the rows, divided {_percent(divided.dead)}"
    p99 = f"{_short(raw.gradient_p99)}, divided {_short(divided.gradient_p99)}"
    heads = [
        [(f"Reading the line d_k = {r.d_k}", "bold")],
        [(f"  median gradient  {median}", "")],
        [(f"  dead             {dead}", "")],
        [(f"  p99              {p99}", "")],
    ]
    return [*heads, *prose(_verdict(r)), []]


def _verdict(r: Reading) -> str:
    if r.raw.gradient_p99 <= r.scaled.gradient_p99:
        return "Here the division hardly changes anything; ask for a larger d_k."
    if r.raw.gradient_median >= r.scaled.gradient_median:
        return (
            "The largest gradients already explode; the median row does not vanish yet. "
            "That takes a larger d_k."
        )
    return (
        "Both words of the note hold. Most rows saturate, and their gradient vanishes; in the rare "
        "rows where two keys nearly tie, it explodes. A single norm over all rows hides this: "
        f"undivided it is {_short(r.raw.gradient_rms / r.scaled.gradient_rms)} times as large, "
        "because the few outweigh the many."
    )


def warmth(raw: Temperature, divided: Temperature) -> list[Line]:
    """The first note's [6, 4]: what the division does there, and what it does not show."""

    def line(name: str, t: Temperature) -> Line:
        scores = "[" + " ".join(f"{s:g}" for s in t.scores) + "]"
        weights = "[" + " ".join(f"{w:.4f}" for w in t.weights) + "]"
        return [(f"  {scores:<8}{weights:<18}{t.slope:<18.3f}{name}", "")]

    return [
        [("The note's example: ", "bold"), ("q = [2 3 4 1], k₁ = [1 0 1 0], k₂ = [0 1 0 1]", "")],
        [(f"  {'scores':<8}{'softmax':<18}gradient at q·k₁", "dim")],
        line("as they are", raw),
        line("divided by √4", divided),
        *prose(
            "This is temperature: divided, the choice is softer. It does not show vanishing: the "
            "gradient that reaches the raw product is about the same both ways. Vanishing takes "
            "a larger d_k, as in the table."
        ),
    ]
