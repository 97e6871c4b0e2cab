"""The lesson as a neutral document: sections of prose, arithmetic lines and grids of numbers.

    Document ─ Section* ─ (Prose | Lines | Grids)*

Every piece of text carries a role (query, key, value, weight …) and no colour. The terminal,
Markdown and HTML renderers read this and nothing else, so all three say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from regard.learn.labels import cells

__all__ = [
    "LINE_WIDTH",
    "Document",
    "Grids",
    "Grid",
    "Line",
    "Lines",
    "Part",
    "Prose",
    "Role",
    "Section",
    "Span",
    "flow",
    "line",
    "line_width",
    "total",
]

LINE_WIDTH = 77  # with the indent of three it stays inside 80 columns

Role: TypeAlias = Literal["plain", "quiet", "x", "q", "k", "v", "score", "weight", "output"]


@dataclass(frozen=True)
class Span:
    """Text with a role."""

    text: str
    role: Role = "plain"


Line: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True)
class Prose:
    """A sentence or two, to be wrapped by whoever shows it."""

    text: str


@dataclass(frozen=True)
class Lines:
    """Arithmetic, to be shown as it stands, in a fixed-width face."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A matrix with its labels; `shades` (0 to 1) ask for shading."""

    title: str
    role: Role
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[float, ...], ...] | None = None
    remark: str = ""


@dataclass(frozen=True)
class Grids:
    """Matrices that belong together, side by side where there is room."""

    grids: tuple[Grid, ...]


Part: TypeAlias = Prose | Lines | Grids


@dataclass(frozen=True)
class Section:
    """A step: its title, one line of why, and what there is to see."""

    title: str
    why: str
    parts: tuple[Part, ...]
    number: int | None = None  # only the steps of the walk-through are numbered


@dataclass(frozen=True)
class Document:
    """The whole lesson."""

    title: str
    opening: tuple[str, ...]
    sections: tuple[Section, ...]
    scaled: bool = True

    @property
    def formula(self) -> str:
        """The whole layer in one line."""
        return f"Attention(Q, K, V) = softmax(Q Kᵀ{' / √d_k' if self.scaled else ''}) V"


def line(*pieces: str | Span) -> Line:
    """Strings become plain spans."""
    return tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces)


def line_width(one: Line) -> int:
    """Terminal cells the line takes."""
    return sum(cells(span.text) for span in one)


def total(head: Line, terms: Sequence[Line], tail: Line) -> list[Line]:
    """head term + term + … tail, broken before a plus where it would grow too long."""
    lines: list[Line] = []
    indent = line(" " * line_width(head))
    current = head
    for n, term in enumerate(terms):
        piece = line(" + ", *term) if n else term
        if n and line_width(current) + line_width(piece) > LINE_WIDTH:
            lines.append(current)
            current, piece = indent, line("+ ", *term)
        current += piece
    if line_width(current) + line_width(tail) > LINE_WIDTH:
        lines.append(current)
        current = line(" " * (line_width(head) - 3))  # its "=" stands under the head's
    return [*lines, current + tail]


def flow(items: Sequence[Line], gap: int = 4) -> list[Line]:
    """Short items one after the other, as many to a line as fit."""
    lines: list[Line] = []
    for item in items:
        if lines and line_width(lines[-1]) + gap + line_width(item) <= LINE_WIDTH:
            lines[-1] += line(" " * gap, *item)
        else:
            lines.append(item)
    return lines
