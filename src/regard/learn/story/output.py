"""The walk-through's end: the weighted sum of values, and the heads put together."""

from __future__ import annotations

import numpy as np

from regard.learn.lesson import Lesson
from regard.learn.lesson.projections import is_identity
from regard.learn.steps import Array, Head
from regard.learn.story.document import Line, Lines, Section, Span
from regard.learn.story.keys import SeenKeys, seen_keys
from regard.learn.story.lines import LINE_WIDTH, line, line_width, product_lines, quiet, vector_line
from regard.learn.text import bracketed, cells, column, padded, short_indices


def mix_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 6: the values, mixed by the weights."""
    head, i, name = lesson.heads[number], lesson.sentence.focus, lesson.sentence.name
    keys = seen_keys(lesson, head)
    # From the fullest form to the tersest; the last one always fits.
    for with_values, most in ((True, 8), (False, 8), (False, 5), (False, 4)):
        lines = _ledger(head, i, keys, name, with_values=with_values, most=most)
        if max(map(line_width, lines)) <= LINE_WIDTH:
            break
    where = f", in head {number + 1}" if len(lesson.heads) > 1 else ""
    why = "The weights say where to look, the values what is found there."
    return Section(f"Weighted sum of values{where}", why, (Lines(tuple(lines)),))


def _ledger(
    head: Head, i: int, keys: SeenKeys, name: str, *, with_values: bool, most: int
) -> list[Line]:
    """weight × value = term, one line per key, added up column by column."""
    weights, kept, rest = head.weights[i], list(keys.kept), list(keys.rest)
    terms = weights[:, None] * head.values
    rows = np.vstack([terms[kept], terms[rest].sum(axis=0), head.context[i]])
    *term_rows, rest_row, sum_row = _aligned(rows)
    values = _aligned(head.values[kept])
    lines = []
    for w, label, v, term in zip(
        column(weights[kept]), keys.names("v({})"), values, term_rows, strict=True
    ):
        value = line(" ", Span(bracketed(v, most), "v")) if with_values else ()
        lines.append(line(Span(w, "weight"), f" × {label}", *value, " = ", bracketed(term, most)))
    left = line_width(lines[0]) - cells(bracketed(sum_row, most)) - 3
    if rest:
        words = f"{len(rest)} others".rjust(left)
        lines.append(line(Span(words, "quiet"), " = ", bracketed(rest_row, most)))
    words = f"sum, the output for {name}"
    summed = words if cells(words) <= left else "sum"
    start = " " * (left - cells(summed)) + summed + " = "
    return [*lines, line(start, Span(bracketed(sum_row, most), "output"))]


def _aligned(rows: Array) -> list[list[str]]:
    """All numbers with the same decimals and the same width."""
    texts = column(rows)
    return [texts[r * rows.shape[1] : (r + 1) * rows.shape[1]] for r in range(rows.shape[0])]


def heads_section(lesson: Lesson) -> Section:
    """Step 7: the heads side by side, then through w_o."""
    i, w_o = lesson.sentence.focus, lesson.projections.w_o
    lines: list[Line] = []
    if len(lesson.heads) > 1:
        lines += _side_by_side(lesson, i)
    lines.append(vector_line("output = concat @ w_o = ", lesson.output[i], "output"))
    if w_o is not None and not is_identity(w_o):
        lines += product_lines("o", "output", lesson.concat[i], w_o, lesson.output[i])
    elif w_o is not None:
        lines.append(quiet("  w_o is the identity: nothing is mixed here"))
    why = "Each head looks in its own way; w_o mixes what they found into one vector."
    return Section("Heads, concatenated, through w_o", why, (Lines(tuple(lines)),))


def _side_by_side(lesson: Lesson, i: int) -> list[Line]:
    kept = short_indices(len(lesson.heads))
    names = [f"head {h + 1}" for h in kept] + ["concat"]
    wide = max(map(cells, names))
    rows = [lesson.heads[h].context[i] for h in kept] + [lesson.concat[i]]
    lines = [
        vector_line(f"{padded(name, wide)} = ", row) for name, row in zip(names, rows, strict=True)
    ]
    if len(kept) < len(lesson.heads):
        more = f"… and {len(lesson.heads) - len(kept)} more heads"
        lines.insert(-1, quiet(more))
    return lines
