"""What follows attention on one row: residual and norm, MLP, both again; then the next word."""

from __future__ import annotations

import numpy as np

from regard.arrays import Array
from regard.learn.languages import Language, language, listing
from regard.learn.lesson import Lesson
from regard.learn.lesson.block import EPSILON, WIDENING, Block, NextWord
from regard.learn.story.document import Line, Lines, Part, Prose, Section, Span
from regard.learn.story.lines import (
    LINE_WIDTH,
    line,
    line_width,
    product_lines,
    quiet,
    total,
    vector,
    vector_line,
)
from regard.learn.text import cells, column, figure, padded, printable


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


_MOST = 10  # words shown, the likeliest
_BAR = 24


def next_word_section(lesson: Lesson, following: NextWord) -> Section:
    """h of the last token, one logit per word, softmax at the temperature."""
    say = language(lesson.options.language or "en")
    name = lesson.sentence.labels[-1]
    assert lesson.block is not None
    start = vector_line(f"h({name}) = ", lesson.block.output[-1], "output")
    return Section(
        say("next_word.title"),
        say("next_word.terminal_why"),
        (
            Lines((start, *_shares(following, say("next_word.words_left")))),
            Prose(_closing(following, say)),
            Prose(say("next_word.not_trained")),
        ),
    )


def _closing(following: NextWord, say: Language) -> str:
    """The likeliest word, or all that are equally likely; at temperature 0 one of them is taken."""
    ties = [printable(word) for word in following.ties]
    name = "next_word.likeliest_line"
    if len(ties) > 1:
        name = "next_word.tied_line" if following.temperature else "next_word.tied_zero_line"
    elif not following.temperature:
        name = "next_word.zero_line"
    return say(
        name,
        word=printable(following.likeliest),
        words=listing(ties),
        entropy=figure(following.entropy),
        temperature=f"{following.temperature:g}",
    )


def _shares(following: NextWord, left_out: str) -> list[Line]:
    """One line per word: its logit, its probability and a bar."""
    shown = following.order[:_MOST]
    rest = following.order[_MOST:]
    names = [printable(following.words[place]) for place in shown]
    wide = max(map(cells, names))
    logits = column(following.logits[shown])
    shares = column([*following.probabilities[shown], following.probabilities[rest].sum()])
    temperature = following.temperature
    divided = "" if temperature in (0, 1) else f" / {temperature:g}"
    lines = [
        line(
            f"  {padded(name, wide)}  h·e = {logit}{divided}  p = ",
            Span(share, "weight"),
            Span("  " + "▇" * round(following.probabilities[place] * _BAR), "weight"),
        )
        for place, name, logit, share in zip(shown, names, logits, shares[:-1], strict=True)
    ]
    if rest:
        lines.append(quiet(f"  {len(rest)} {left_out}: {shares[-1].strip()}"))
    return [one if line_width(one) <= LINE_WIDTH else one[:-1] for one in lines]
