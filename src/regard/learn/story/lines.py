"""Vectors inside a line: as many numbers as there is room for."""

from __future__ import annotations

from numpy.typing import ArrayLike

from regard.learn.document import LINE_WIDTH, Line, Role, Span, line
from regard.learn.figures import bracketed, figures
from regard.learn.labels import cells

__all__ = ["vector", "vector_line"]


def vector(values: ArrayLike, role: Role = "plain", room: int = LINE_WIDTH) -> Span:
    """[1 0 1 0], its middle left out as far as the room asks for it."""
    texts = figures(values)
    forms = [bracketed(texts, most) for most in (8, 7, 6, 5, 4)]
    return Span(next((form for form in forms if len(form) <= room), forms[-1]), role)


def vector_line(start: str, values: ArrayLike, role: Role = "plain", end: str = "") -> Line:
    """start [1 0 1 0] end, on one line."""
    return line(start, vector(values, role, LINE_WIDTH - cells(start) - cells(end)), end)
