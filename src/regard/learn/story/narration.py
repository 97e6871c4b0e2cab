"""A lesson told in order: one row with its arithmetic, then every row, then what to remember."""

from __future__ import annotations

from dataclasses import replace

from regard.learn.document import Document, Section
from regard.learn.labels import printable
from regard.learn.lesson import Lesson
from regard.learn.narrate_block import block_sections
from regard.learn.narrate_closing import closing_sections
from regard.learn.narrate_input import embedding_section, projection_section
from regard.learn.narrate_match import scale_section, score_section, softmax_section
from regard.learn.narrate_output import heads_section, mix_section
from regard.learn.narrate_tables import table_sections

__all__ = ["narrate"]


def narrate(lesson: Lesson) -> Document:
    """The whole lesson as a document without colour or layout."""
    steps = [replace(step, number=n) for n, step in enumerate(_walk(lesson), start=1)]
    sections = (*steps, *table_sections(lesson), *closing_sections(lesson))
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
