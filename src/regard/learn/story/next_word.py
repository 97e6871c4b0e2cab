"""The last step: logits of the words that may come next, and their probabilities."""

from __future__ import annotations

from regard.learn.languages import Language, language, listing
from regard.learn.lesson import Lesson
from regard.learn.lesson.next_word import NextWord
from regard.learn.story.document import Line, Lines, Prose, Section, Span
from regard.learn.story.lines import LINE_WIDTH, line, line_width, quiet, vector_line
from regard.learn.text import cells, column, figure, padded, printable

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
