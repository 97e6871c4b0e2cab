"""The walk-through's first steps: the embedding of a token, and its query, key and value."""

from __future__ import annotations

import numpy as np

from regard.arrays import Array
from regard.learn.lesson import Lesson
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
    x, say = lesson.embedding, lesson.say
    if lesson.layer is not None:
        title, why = say("story.input_title"), say("story.input_why")
        return Section(title, why, (Lines(tuple(_inputs(lesson))),))
    title = say("embedding.name")
    if x.positions is None:
        return Section(title, say("story.embedding_why"), (Lines(tuple(_inputs(lesson))),))
    i, name = lesson.sentence.focus, lesson.sentence.name
    start = line(f"x({name}) = ")
    room = LINE_WIDTH - line_width(start) - 2
    summands = [line(vector(x.words[i], "x", room)), line(vector(x.positions[i], "quiet", room))]
    added = total(start, summands, line(" = ", vector(x.x[i], "x", room)))
    remark = quiet(say("story.word_position", place=i + 1, index=i))
    return Section(title, say("story.embedding_why_positions"), (Lines((*added, remark)),))


def _inputs(lesson: Lesson) -> list[Line]:
    labels, x = lesson.sentence.labels, lesson.embedding.x
    kept = short_indices(len(labels))
    if lesson.sentence.focus not in kept:
        kept.insert(-1, lesson.sentence.focus)
    items = [vector_line(f"{labels[j]} = ", x[j], "x") for j in kept]
    if len(kept) < len(labels):
        items.append(quiet(lesson.say("count.more", count=len(labels) - len(kept))))
    return flow(items)


def projection_section(lesson: Lesson, number: int = 0) -> Section:
    """Step 2: three learned views of every token, in head `number`."""
    head, i, say = lesson.heads[number], lesson.sentence.focus, lesson.say
    j = i if lesson.key_labels == lesson.sentence.labels else 0  # the key that is spelt out
    own, key = lesson.sentence.name, lesson.key_labels[j]
    plain = (head.queries, head.keys) if head.plain is None else head.plain
    views: tuple[tuple[Role, str, Array, Array, Array, Array], ...] = (
        ("q", own, lesson.embedding.x[i], head.w_q, plain[0][i], head.queries[i]),
        ("k", key, lesson.sources[0][j], head.w_k, plain[1][j], head.keys[j]),
        ("v", key, lesson.sources[1][j], head.w_v, head.values[j], head.values[j]),
    )
    lines: list[Line] = []
    for (role, name, x, w, made, final), bias in zip(views, head.biases, strict=True):
        alike = bias is None and name == own and np.array_equal(w, head.w_q)
        if role != "q" and alike and head.biases[0] is None:
            lines.append(vector_line(f"{role}({name}) = ", made, role, f"   (w_{role} = w_q)"))
        else:
            many = len(lesson.heads) > 1
            w_name = f"w_{role}"
            w_name = say("story.of_head", name=w_name, head=number + 1) if many else w_name
            w_name += "" if bias is None else f" + b_{role}"
            lines.append(vector_line(f"{role}({name}) = x @ {w_name} = ", made, role))
            lines += product_lines(say, (role, role), x, w, made, bias)
        if not np.array_equal(made, final):
            lines.append(vector_line("  " + say("story.after_projection"), final, role))
    closing = Prose(say("story.projection_closing"))
    title, why = say("story.projection_title"), say("story.projection_why")
    return Section(title, why, (Lines(tuple(lines)), closing))
