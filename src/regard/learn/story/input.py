"""The walk-through's first steps: the embedding of a token, and its query, key and value."""

from __future__ import annotations

import numpy as np

from regard.learn.lesson import Lesson
from regard.learn.steps import Array
from regard.learn.story.document import Line, Lines, Prose, Role, Section
from regard.learn.story.lines import (
    LINE_WIDTH,
    flow,
    line,
    line_width,
    product_lines,
    quiet,
    total,
    vector,
    vector_line,
)
from regard.learn.text import short_indices


def embedding_section(lesson: Lesson) -> Section:
    """Step 1: words become vectors."""
    why = "Each word is looked up as one fixed vector, the same in every sentence."
    x = lesson.embedding
    if x.positions is None:
        return Section("Embedding", why, (Lines(tuple(_inputs(lesson))),))
    i, name = lesson.sentence.focus, lesson.sentence.name
    start = line(f"x({name}) = ")
    room = LINE_WIDTH - line_width(start) - 2
    summands = [line(vector(x.words[i], "x", room)), line(vector(x.positions[i], "quiet", room))]
    added = total(start, summands, line(" = ", vector(x.x[i], "x", room)))
    why += " Its place is added, since attention by itself does not see order."
    remark = f"word + position {i + 1} (sines and cosines of {i}, counted from 0)"
    return Section("Embedding", why, (Lines((*added, quiet(remark))),))


def _inputs(lesson: Lesson) -> list[Line]:
    labels, x = lesson.sentence.labels, lesson.embedding.x
    kept = short_indices(len(labels))
    if lesson.sentence.focus not in kept:
        kept.insert(-1, lesson.sentence.focus)
    items = [vector_line(f"{labels[j]} = ", x[j], "x") for j in kept]
    if len(kept) < len(labels):
        items.append(quiet(f"… and {len(labels) - len(kept)} more"))
    return flow(items)


def projection_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 2: three learned views of every token, in head `number`."""
    head, i, name = lesson.heads[number], lesson.sentence.focus, lesson.sentence.name
    x, which = lesson.embedding.x[i], f" of head {number + 1}" if len(lesson.heads) > 1 else ""
    lines = _view(f"q({name})", f"w_q{which}", "q", x, head.w_q, head.queries[i])
    views: tuple[tuple[Role, Array, Array], ...] = (
        ("k", head.w_k, head.keys[i]),
        ("v", head.w_v, head.values[i]),
    )
    for role, w, made in views:
        if np.array_equal(w, head.w_q):
            lines.append(vector_line(f"{role}({name}) = ", made, role, f"   (w_{role} = w_q)"))
        else:
            lines += _view(f"{role}({name})", f"w_{role}{which}", role, x, w, made)
    why = "Three learned views: what a token asks, what it is found by, what it gives."
    closing = Prose("Every token gets its own three in the same way.")
    return Section("Query, key, value", why, (Lines(tuple(lines)), closing))


def _view(name: str, w_name: str, role: Role, x: Array, w: Array, made: Array) -> list[Line]:
    """One vector through one projection, with its products."""
    result = vector_line(f"{name} = x @ {w_name} = ", made, role)
    return [result, *product_lines(name[0], role, x, w, made)]
