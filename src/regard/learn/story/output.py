"""The walk-through's end: the weighted sum of values, and the heads put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.arrays import Array
from regard.learn.lesson import Lesson
from regard.learn.lesson.head import Head
from regard.learn.lesson.projections import is_identity
from regard.learn.story.document import Line, Lines, Section, Span
from regard.learn.story.keys import SeenKeys, seen_keys
from regard.learn.story.lines import LINE_WIDTH, line, line_width, product_lines, quiet, vector_line
from regard.learn.story.match import nothing_seen
from regard.learn.text import bracketed, cells, column, padded, right_aligned, short_indices


def mix_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 6: the values, mixed by the weights."""
    head, say, keys = lesson.heads[number], lesson.say, seen_keys(lesson, lesson.heads[number])
    if not keys.seen:
        return Section(say("story.sum_title"), say("story.sum_why"), (nothing_seen(lesson),))
    # From the fullest form to the tersest; the last one always fits.
    for with_values, most in ((True, 8), (False, 8), (False, 5), (False, 4)):
        lines = _ledger(lesson, head, keys, with_values=with_values, most=most)
        if max(map(line_width, lines)) <= LINE_WIDTH:
            break
    many = len(lesson.heads) > 1
    title = say("story.sum_title_head", head=number + 1) if many else say("story.sum_title")
    return Section(title, say("story.sum_why"), (Lines(tuple(lines)),))


def _ledger(
    lesson: Lesson, head: Head, keys: SeenKeys, *, with_values: bool, most: int
) -> list[Line]:
    """weight × value = term, one line per key, added up column by column."""
    i, name, say = lesson.sentence.focus, lesson.sentence.name, lesson.say
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
        words = right_aligned(say("count.others", count=len(rest)), left)
        lines.append(line(Span(words, "quiet"), " = ", bracketed(rest_row, most)))
    words = say("story.sum_output", name=name)
    summed = words if cells(words) <= left else say("symbol.sum")
    start = right_aligned(summed, left) + " = "
    return [*lines, line(start, Span(bracketed(sum_row, most), "output"))]


def _aligned(rows: Array) -> list[list[str]]:
    """All numbers with the same decimals and the same width."""
    texts = column(rows)
    return [texts[r * rows.shape[1] : (r + 1) * rows.shape[1]] for r in range(rows.shape[0])]


def heads_section(lesson: Lesson) -> Section:
    """Step 7: the heads side by side, then through w_o."""
    i, w_o, say = lesson.sentence.focus, lesson.projections.w_o, lesson.say
    lines: list[Line] = []
    if len(lesson.heads) > 1:
        lines += _side_by_side(lesson, i)
    lines.append(
        vector_line(f"{say('symbol.output')} = {_mixed(lesson)} = ", lesson.output[i], "output")
    )
    b_o = lesson.projections.b_o
    if w_o is not None and (b_o is not None or not is_identity(w_o)):
        lines += product_lines(say, ("o", "output"), lesson.concat[i], w_o, lesson.output[i], b_o)
    elif w_o is not None:
        lines.append(quiet("  " + say("story.w_o_identity")))
    return Section(say("story.heads_title"), say("story.heads_why"), (Lines(tuple(lines)),))


def _mixed(lesson: Lesson) -> str:
    return "concat @ w_o" if lesson.projections.b_o is None else "concat @ w_o + b_o"


def stages_section(lesson: Lesson, stages: Sequence[tuple[str, str, Array]]) -> Section:
    """A block, from its input to what the next block receives."""
    i, say = lesson.sentence.focus, lesson.say
    lines = [
        vector_line(f"{name} = {formula} = " if formula else f"{name} = ", rows[i])
        for name, formula, rows in stages
    ]
    title = say("story.stages_title", name=lesson.sentence.name)
    return Section(title, say("story.stages_why"), (Lines(tuple(lines)),))


def _side_by_side(lesson: Lesson, i: int) -> list[Line]:
    kept = short_indices(len(lesson.heads))
    names = [lesson.say("count.head", number=h + 1) for h in kept] + ["concat"]
    wide = max(map(cells, names))
    rows = [lesson.heads[h].context[i] for h in kept] + [lesson.concat[i]]
    texts = iter(column(np.concatenate(rows)))
    aligned = [[next(texts) for _ in row] for row in rows]
    most = next((m for m in (8, 7, 6, 5, 4, 3) if _fits(wide, aligned, m)), 2)
    lines = [
        line(f"{padded(name, wide)} = {bracketed(row, most)}")
        for name, row in zip(names, aligned, strict=True)
    ]
    if len(kept) < len(lesson.heads):
        more = lesson.say("story.more_heads", count=len(lesson.heads) - len(kept))
        lines.insert(-1, quiet(more))
    return lines


def _fits(name: int, rows: list[list[str]], most: int) -> bool:
    return max(name + 3 + cells(bracketed(row, most)) for row in rows) <= LINE_WIDTH
