"""A lesson in order: one row with its arithmetic, then every row, where the notes go on, and what
to remember."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.learn.lesson import NOTES_SENTENCE, Lesson
from regard.learn.story.block import block_sections, next_word_section
from regard.learn.story.document import Document, Lines, Prose, Section, Span
from regard.learn.story.further import further_sections, next_section
from regard.learn.story.lines import line
from regard.learn.story.row import (
    embedding_section,
    heads_section,
    mix_section,
    projection_section,
    scale_section,
    score_section,
    softmax_section,
    stages_section,
)
from regard.learn.story.tables import table_sections
from regard.learn.text import bracketed, cells, figure, figures, padded, printable

_COMMAND = 'regard learn "The cat sat"'


def narrate(lesson: Lesson) -> Document:
    """The whole lesson as a document without colour or layout."""
    steps = [replace(step, number=n) for n, step in enumerate(_walk(lesson), start=1)]
    sections = (*steps, *table_sections(lesson), *_closing(lesson))
    title, opening = _title(lesson), _opening(lesson)
    return Document(title, opening, sections, lesson.options.scaled, lesson.say.code)


def _walk(lesson: Lesson) -> list[Section]:
    """One row, step by step; with several heads, through the first."""
    steps = [
        embedding_section(lesson),
        projection_section(lesson),
        score_section(lesson),
        scale_section(lesson),
        softmax_section(lesson),
        mix_section(lesson),
    ]
    if lesson.projections.w_o is not None:
        steps.append(heads_section(lesson))
    if lesson.block is not None:
        steps += block_sections(lesson, lesson.block)
    if lesson.layer is not None and lesson.layer.stages:
        steps.append(stages_section(lesson, lesson.layer.stages))
    if lesson.next is not None:
        steps.append(next_word_section(lesson, lesson.next))
    return steps


def _title(lesson: Lesson) -> str:
    words = printable(" ".join(lesson.sentence.tokens))
    return words if len(words) <= 70 else words[:69] + "…"


def _opening(lesson: Lesson) -> tuple[str, ...]:
    sizes, say = lesson.projections.sizes, lesson.say
    return (
        say(
            "story.sizes_causal" if lesson.options.causal else "story.sizes",
            tokens=say("count.tokens", count=len(lesson.sentence)),
            heads=say("count.heads", count=sizes.heads),
            width=sizes.width,
            d_k=sizes.d_k,
            d_v=sizes.d_v,
        ),
        say("origins.embeddings", source=lesson.embedding.source),
        say("origins.projections", source=lesson.projections.source),
        *(say(remark) for remark in (lesson.layer.remarks if lesson.layer else ())),
        say("story.first", name=lesson.sentence.name),
    )


def _closing(lesson: Lesson) -> list[Section]:
    """The conventions, then the first note's number or where to find it."""
    if lesson.layer is not None:
        return []
    if lesson.is_notes_example:
        return _ends(lesson, _first_note(lesson))
    words = tuple(token.lower() for token in lesson.sentence.tokens)
    is_theirs = words == NOTES_SENTENCE
    return _ends(lesson, *([] if is_theirs else [_elsewhere(lesson)]))


def _ends(lesson: Lesson, *note: Section) -> list[Section]:
    """Where the notes go on, the conventions, the first note, and what to type next."""
    further = further_sections(lesson)
    return [*further, _conventions(lesson), *note, next_section(lesson.say)]


def _conventions(lesson: Lesson) -> Section:
    i, name, head = lesson.sentence.focus, lesson.sentence.name, lesson.heads[0]
    say, own = lesson.say, figure(float(head.weights[i, i]))
    has_positions, has_block = lesson.options.positions, lesson.block is not None
    remarks = (
        say("story.know_rows"),
        say("story.know_keys", name=name, weight=own),
        say("story.know_softmax"),
        say("story.know_width", d_k=head.w_k.shape[1], d_v=head.w_v.shape[1]),
        say("story.know_positions_added" if has_positions else "story.know_positions"),
        say("story.know_contextual_block" if has_block else "story.know_contextual"),
        say("story.know_weights"),
    )
    parts = tuple(Prose(f"• {text}") for text in remarks)
    return Section(say("story.knowing_title"), say("story.knowing_why"), parts)


def _first_note(lesson: Lesson) -> Section:
    """How 1.2669 and 0.9999 come about, from the weights themselves."""
    weights = np.floor(lesson.heads[0].weights[0] * 1e4) / 1e4  # the note truncates
    the, cat, sat = figures(weights)
    right, say = bracketed(figures(lesson.output[0])), lesson.say
    once, note = say("lab_twice.once"), say("story.the_note")
    wide = max(cells(once), cells(note)) + 2
    three, cut = say("story.that_is", weight=the), say("story.cut_off", weight=cat)
    lines = (
        line(padded(once, wide), Span(right, "output")),
        line(f"{padded(note, wide)}[1.2669 0.9999 1.2669 0.9999]"),
        line(),
        line(f"1.2669 = {the} + {sat} + ", Span(sat, "weight"), f"   {three}"),
        line(f"0.9999 = {cat} + {sat} + ", Span(sat, "weight"), f"   {cut}"),
    )
    parts = (
        Lines(lines),
        Prose(say("story.first_note_check")),
        Prose(say("story.first_note_unknown")),
    )
    return Section(say("story.first_note_title"), say("story.first_note_why"), parts)


def _elsewhere(lesson: Lesson) -> Section:
    say, command = lesson.say, _COMMAND
    parts = (Lines((line(command),)),)
    return Section(say("story.elsewhere_title"), say("story.elsewhere_why"), parts)
