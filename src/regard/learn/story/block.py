"""The rest of the block on one row: residual and norm, MLP, residual and norm again."""

from __future__ import annotations

import numpy as np

from regard.learn.lesson import Lesson
from regard.learn.lesson.block import EPSILON, WIDENING, Block
from regard.learn.steps import Array
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
    i, x = lesson.sentence.focus, lesson.embedding.x
    return [
        Section(
            "Residual and layer norm",
            "Attention adds to what was there, it does not replace it; the norm evens sizes.",
            (
                Lines(
                    tuple(_sum_and_norm("x", x[i], "attention", lesson.output[i], block.normed[i]))
                ),
            ),
        ),
        Section("MLP", _MLP, tuple(_mlp(block, i))),
        Section(
            "Residual and layer norm, again",
            "What leaves is the hidden state, commonly called the contextual embedding.",
            (
                Lines(
                    tuple(_sum_and_norm("n", block.normed[i], "mlp", block.mlp[i], block.output[i]))
                ),
            ),
        ),
    ]


_MLP = "Attention carries between tokens; the MLP then works on each token alone."


def _sum_and_norm(first: str, a: Array, second: str, b: Array, result: Array) -> list[Line]:
    """a + b, its mean and deviation, and what is left after both are taken out."""
    added = a + b
    name = "n" if first == "x" else "output"
    mean = float(added.mean())
    deviation = float(np.sqrt(((added - mean) ** 2).mean() + EPSILON))
    start = line(f"r = {first} + {second} = ")
    given = [line(vector(summand, "x", LINE_WIDTH - line_width(start) - 2)) for summand in (a, b)]
    return [
        *total(start, given, line()),
        vector_line("  = ", added),
        line(f"mean {figure(mean)}, deviation √(variance + {EPSILON:g}) = {figure(deviation)}"),
        vector_line(f"{name} = (r - mean) / deviation = ", result, "output"),
    ]


def _mlp(block: Block, i: int) -> list[Part]:
    """n @ w_1, negatives cut, @ w_2."""
    hidden, active, out = block.hidden[i], block.activated[i], block.mlp[i]
    first = product_lines("h", "plain", block.normed[i], block.w_1[:, :1], hidden[:1])
    lines = [
        vector_line("h = n @ w_1 = ", hidden),
        *first,
        vector_line("max(h, 0)   = ", active),
        vector_line("mlp = max(h, 0) @ w_2 = ", out, "output"),
    ]
    made_up = (
        f"w_1 and w_2 are made up, not learned; the hidden layer is {WIDENING}× as wide as x "
        "(4× in most models)."
    )
    return [Lines(tuple(lines)), Prose(made_up)]
