"""Lines of arithmetic that fit the screen: sums that break before a plus, vectors with a gap."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from regard.arrays import Array
from regard.learn.languages import Language
from regard.learn.story.document import Line, Role, Span
from regard.learn.text import bracketed, cells, factor, figure, figures, short_indices

LINE_WIDTH = 77  # with the indent of three it stays inside 80 columns


def line(*pieces: str | Span) -> Line:
    """Strings become plain spans."""
    return tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces)


def quiet(text: str) -> Line:
    """A line that stands back."""
    return line(Span(text, "quiet"))


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


def vector(values: ArrayLike, role: Role = "plain", room: int = LINE_WIDTH) -> Span:
    """[1 0 1 0], its middle left out as far as the room asks for it."""
    texts = figures(values)
    forms = [bracketed(texts, most) for most in (8, 7, 6, 5, 4, 3, 2)]
    return Span(next((form for form in forms if len(form) <= room), forms[-1]), role)


def vector_line(start: str, values: ArrayLike, role: Role = "plain", end: str = "") -> Line:
    """start [1 0 1 0] end, on one line."""
    return line(start, vector(values, role, LINE_WIDTH - cells(start) - cells(end)), end)


def products(a: Sequence[str], b: Sequence[str], roles: tuple[Role, Role]) -> list[Line]:
    """a1×b1, a2×b2 …, the middle left out where there are many."""
    kept = short_indices(len(a))
    terms = [line(Span(factor(a[d]), roles[0]), "×", Span(factor(b[d]), roles[1])) for d in kept]
    if len(kept) < len(a):
        terms.insert(-1, quiet("…"))
    return terms


def product_lines(
    say: Language,
    of: tuple[str, Role],
    x: Array,
    w: Array,
    made: Array,
    bias: Array | None = None,
) -> list[Line]:
    """q1 = x1×w11 + x2×w21 + … + b1 for each dimension that is shown; `of` is its letter and
    role."""
    letter, role = of
    xs, results = figures(x), figures(made)
    lines: list[Line] = []
    kept = short_indices(made.size, 6)
    for d in kept:
        terms = products(xs, figures(w[:, d]), ("x", "plain"))
        terms += [] if bias is None else [line(factor(figure(bias[d])))]
        lines += total(line(f"  {letter}{d + 1} = "), terms, line(" = ", Span(results[d], role)))
    if len(kept) < made.size:
        lines.append(quiet("  " + say("story.more_alike", count=made.size - len(kept))))
    return lines
