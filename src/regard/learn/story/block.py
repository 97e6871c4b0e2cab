"""The rest of the block on one row: residual and norm, MLP, residual and norm again."""

from __future__ import annotations

import numpy as np

from regard.arrays import Array
from regard.learn.languages import Language
from regard.learn.lesson import Lesson
from regard.learn.lesson.block import EPSILON, WIDENING, Block
from regard.learn.story.document import Line, Lines, Part, Prose, Section
from regard.learn.story.lines import (
    LINE_WIDTH,
    line,
    line_width,
    product_lines,
    total,
    vector,
    vector_line,
)
from regard.learn.text import figure


def block_sections(lesson: Lesson, block: Block) -> list[Section]:
    """Three more steps."""
    i, x, say = lesson.sentence.focus, lesson.embedding.x, lesson.say
    return [
        Section(
            say("next_layer.residual_title"),
            say("next_layer.residual"),
            (Lines(_sum_and_norm(say, "x", x[i], lesson.output[i], block.normed[i])),),
        ),
        Section(say("next_layer.mlp_title"), say("next_layer.mlp"), tuple(_mlp(say, block, i))),
        Section(
            say("next_layer.again_title"),
            say("next_layer.again"),
            (Lines(_sum_and_norm(say, "n", block.normed[i], block.mlp[i], block.output[i])),),
        ),
    ]


def _sum_and_norm(say: Language, first: str, a: Array, b: Array, result: Array) -> tuple[Line, ...]:
    """a + b, its mean and deviation, and what is left after both are taken out."""
    added = a + b
    name = "n" if first == "x" else say("symbol.output")
    second = say("symbol.attention") if first == "x" else "mlp"
    mean = float(added.mean())
    deviation = float(np.sqrt(((added - mean) ** 2).mean() + EPSILON))
    start = line(f"r = {first} + {second} = ")
    given = [line(vector(summand, "x", LINE_WIDTH - line_width(start) - 2)) for summand in (a, b)]
    sizes = {"mean": figure(mean), "epsilon": f"{EPSILON:g}", "deviation": figure(deviation)}
    return (
        *total(start, given, line()),
        vector_line("  = ", added),
        line(say("story.mean_deviation", **sizes)),
        vector_line(f"{name} = {say('story.normed')} = ", result, "output"),
    )


def _mlp(say: Language, block: Block, i: int) -> list[Part]:
    """n @ w_1, negatives cut, @ w_2."""
    hidden, active, out = block.hidden[i], block.activated[i], block.mlp[i]
    first = product_lines(say, ("h", "plain"), block.normed[i], block.w_1[:, :1], hidden[:1])
    lines = [
        vector_line("h = n @ w_1 = ", hidden),
        *first,
        vector_line("max(h, 0)   = ", active),
        vector_line("mlp = max(h, 0) @ w_2 = ", out, "output"),
    ]
    return [Lines(tuple(lines)), Prose(say("next_layer.mlp_made_up", times=WIDENING))]
