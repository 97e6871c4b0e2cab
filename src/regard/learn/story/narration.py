"""A lesson told in order: one row with its arithmetic, then every row, then what to remember."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.learn.lesson import Lesson
from regard.learn.story.block import block_sections
from regard.learn.story.document import Document, Lines, Prose, Section, Span
from regard.learn.story.input import embedding_section, projection_section
from regard.learn.story.lines import line
from regard.learn.story.match import scale_section, score_section, softmax_section
from regard.learn.story.output import heads_section, mix_section
from regard.learn.story.tables import table_sections
from regard.learn.text import bracketed, figure, figures, printable


def narrate(lesson: Lesson) -> Document:
    """The whole lesson as a document without colour or layout."""
    steps = [replace(step, number=n) for n, step in enumerate(_walk(lesson), start=1)]
    sections = (*steps, *table_sections(lesson), *_closing(lesson))
    return Document(_title(lesson), _opening(lesson), sections, lesson.options.scaled)


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
    return steps


def _title(lesson: Lesson) -> str:
    words = printable(" ".join(lesson.sentence.tokens))
    return words if len(words) <= 70 else words[:69] + "…"


def _opening(lesson: Lesson) -> tuple[str, ...]:
    sizes, count = lesson.projections.sizes, len(lesson.sentence)
    heads = "one head" if sizes.heads == 1 else f"{sizes.heads} heads"
    tokens = "1 token" if count == 1 else f"{count} tokens"
    causal = (
        "; causal: a token sees itself and what stands before it" if lesson.options.causal else ""
    )
    return (
        f"{tokens}, width {sizes.width}; {heads}, d_k = {sizes.d_k}, d_v = {sizes.d_v}{causal}.",
        f"Embeddings: {lesson.embedding.source}.",
        f"Projections: {lesson.projections.source}.",
        f'First one row, "{lesson.sentence.name}", with its arithmetic; then every row at once.',
    )


def _closing(lesson: Lesson) -> list[Section]:
    """The conventions, then the first note's number or where to find it."""
    return [_conventions(lesson), _first_note(lesson) if lesson.is_notes_example else _elsewhere()]


def _conventions(lesson: Lesson) -> Section:
    i, name, head = lesson.sentence.focus, lesson.sentence.name, lesson.heads[0]
    d_k, d_v = head.w_k.shape[1], head.w_v.shape[1]
    own = figure(float(head.weights[i, i]))
    added = "here too" if lesson.options.positions else "left out here, --positions adds it"
    hidden = (
        "the block's hidden state (above)" if lesson.block else "the block's hidden state (--block)"
    )
    remarks = (
        "Rows are tokens here: Q = X @ w_q, as in the first note. The second note writes "
        "Q = W·X with tokens as columns: the transpose of the same product.",
        f'Keys are of all tokens, oneself included: "{name}" gives itself {own}.',
        "Softmax runs over the tokens, never over the dimensions: each row of weights sums to 1.",
        f"The width of w_v decides the width of a head's output (d_v = {d_v}), whatever d_k is "
        f"({d_k}).",
        f"The input of a real layer is word plus position ({added}). Without positions or a causal "
        "mask, shuffling the words only shuffles the rows.",
        '"Contextual embedding" is the attention layer\'s output in the notes; in common use it is '
        f"{hidden}, with residual and MLP.",
        "A weight says where a row looked, not why a model answered; to find that out, take the "
        "key away and compare (a knock-out).",
    )
    why = "Seven things the notes leave to the reader."
    return Section("Worth knowing", why, tuple(Prose(f"• {text}") for text in remarks))


def _first_note(lesson: Lesson) -> Section:
    """How 1.2669 and 0.9999 come about, from the weights themselves."""
    weights = np.floor(lesson.heads[0].weights[0] * 1e4) / 1e4  # the note truncates
    the, cat, sat = figures(weights)
    right = bracketed(figures(lesson.output[0]))
    lines = (
        line("each term once  ", Span(right, "output")),
        line("the note        [1.2669 0.9999 1.2669 0.9999]"),
        line(),
        line(f"1.2669 = {the} + {sat} + ", Span(sat, "weight"), f"   that is 3 × {the}"),
        line(f"0.9999 = {cat} + {sat} + ", Span(sat, "weight"), f"   {cat} is 0.15536… cut off"),
    )
    return Section(
        "The first note prints [1.2669, 0.9999, 1.2669, 0.9999]; here is what it counted twice",
        'That is what comes out for "The" when the term of "sat" is counted twice.',
        (
            Lines(lines),
            Prose(
                "A check that needs no calculator: the weights sum to 1 and no value is above 1, "
                "so no number of the output can be above 1."
            ),
            Prose(
                "Which slip it was cannot be told, since the note's figures are missing: a doubled "
                "value, a doubled weight and a double addition look the same."
            ),
        ),
    )


def _elsewhere() -> Section:
    why = "For the notes' own numbers, and the one sum their first note gets wrong:"
    return Section("In the notes", why, (Lines((line('regard learn "The cat sat"'),)),))
