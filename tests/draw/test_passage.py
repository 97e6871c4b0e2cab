"""A row as text, and tokens spelt: shades or marks, whole words, nothing beyond the edge, nothing
that steers a terminal."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.draw import Paper, Passage, palette, plain, shaded_text
from regard.draw import spelling as s
from regard.draw.spelling import cells
from regard.views.row import heaviest

COLOUR, MONO, SIMPLE = Paper(40, colours="true"), Paper(40), Paper(40, is_ascii=True)
TOKENS = ["<s>", "The", " cat", " sat", " on", " the", " mat", ".", "\n", "It", " sl", "ept"]


def passage(tokens=TOKENS, heavy=(), query=None, visible=None) -> Passage:
    """A row that looks at the heavy keys, and a little at the others it may see."""
    count = len(tokens)
    weights = np.full(count, 1e-6)
    weights[list(heavy)] = 0.9 / max(len(heavy), 1)
    shares = weights / weights.max(initial=1e-6)
    if visible is not None:
        weights[visible:], shares[visible:] = 0.0, np.nan
    return Passage(tokens, weights, shares, query)


def test_the_heaviest_keys():
    assert heaviest([0.1, 0.5, 0.0, 0.4, 0.4], 3).tolist() == [1, 3, 4]
    assert heaviest([0.0, 0.2], 5).tolist() == [1]


def test_the_text_reads_as_it_was_written():
    assert plain(shaded_text(passage(), COLOUR)) == ["<s>The cat sat on the mat.⏎", "It slept"]


def test_marks_where_there_are_no_colours():
    lines = plain(shaded_text(passage(heavy=[2], query=6), SIMPLE, marks=1))
    assert lines[0] == "<s>The cat(0.90) sat on the> mat<.\\n"


def test_weights_of_nothing_are_not_marked():
    assert plain(shaded_text(passage(), SIMPLE))[1] == "It slept"


def test_shades_follow_the_shares():
    (line, _) = shaded_text(passage(heavy=[2], visible=4), COLOUR)
    styles = dict(line)
    bright = palette.colour(255, "true")
    assert styles[" cat"] == f"#000000 on {bright}"
    assert styles[" on the mat.⏎"] == "dim"  # may not be seen


def test_the_query_is_told_apart():
    styles = [style for line in shaded_text(passage(query=3), COLOUR) for _, style in line]
    assert sum("underline" in style for style in styles) == 1


@pytest.mark.parametrize("paper", [COLOUR, MONO, SIMPLE])
def test_lines_break_between_words(paper):
    words = [f" word{n}" for n in range(30)]
    lines = plain(shaded_text(passage(words), paper))
    assert max(map(cells, lines)) <= 40
    assert " ".join(lines).split() == [word.strip() for word in words]
    assert not any(line.startswith(" ") for line in lines[1:])


def test_pieces_of_a_word_stay_together():
    tokens = [" aaaaaaaaaa"] * 3 + [" unbe", "liev", "able"]
    assert plain(shaded_text(passage(tokens), COLOUR))[-1] == "unbelievable"


@pytest.mark.parametrize("token", ["x" * 150, "猫" * 50, " " * 90])
def test_a_word_wider_than_the_paper_is_cut(token):
    lines = plain(shaded_text(passage([token, " end"]), MONO))
    assert max(map(cells, lines)) <= 40
    assert "".join(lines).replace(" ", "").endswith("end")


def test_line_ends_break_the_line():
    lines = plain(shaded_text(passage(["a", "\n\n", "b", "\n"]), MONO))
    assert lines == ["a⏎⏎", "b⏎"]


def test_long_texts_show_what_matters_and_count_the_rest():
    tokens = [f" t{n}" for n in range(5000)]
    long = passage(tokens, heavy=[1000, 3000], query=4999)
    text = " ".join(plain(shaded_text(long, MONO, marks=2)))
    assert "t1000(0.45)" in text and "t3000(0.45)" in text and "t4999" in text
    assert "[… 988 tokens, 0.1% …]" in text
    assert len(text.split()) < 200


def test_small_gaps_are_shown():
    tokens = [f" t{n}" for n in range(1000)]
    text = " ".join(plain(shaded_text(passage(tokens, heavy=[100, 128]), MONO, marks=2)))
    assert "t113" in text and "t116" in text


WIDE, ASCII = Paper(), Paper(is_ascii=True)
PAPERS = pytest.mark.parametrize("paper", [WIDE, ASCII], ids=["unicode", "ascii"])

HOSTILE = [
    "\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "a\rb", "\x00", "\x7f", "\u202egnp.exe",
    "\u2066x\u2069", "\u200b", "\ufeff", "\u2028", "\ud800", "\U000e0041", "a\x08\x08",
]  # fmt: skip


@pytest.mark.parametrize(
    ("token", "fancy", "simple"),
    [
        ("cat", "cat", "cat"),
        (" cat", "␣cat", "_cat"),
        ("cat ", "cat␣", "cat_"),
        ("  ", "␣␣", "__"),
        ("a b", "a b", "a b"),
        ("\n", "⏎", "\\n"),
        ("\t", "→", "\\t"),
        ("", '""', '""'),
        ("猫", "猫", "?"),
        ("\x1b[2J", "\\x1b[2J", "\\x1b[2J"),
        ("\u202e", "\\u202e", "\\u202e"),
    ],
)
def test_tokens_alone(token, fancy, simple):
    assert s.visible(token, WIDE) == fancy
    assert s.visible(token, ASCII) == simple


def test_tokens_in_a_text_keep_their_blanks():
    assert s.flowing(" cat\n", WIDE) == " cat⏎"
    assert s.flowing("", WIDE) == ""


@PAPERS
@pytest.mark.parametrize("token", HOSTILE)
def test_nothing_steers_the_terminal(token, paper):
    for shown in (s.visible(token, paper), s.flowing(token, paper), s.label(token, 8, paper)):
        assert shown.isprintable()


def test_marks_without_a_width_are_cut_too():
    assert len(s.visible("e" + "\u0301" * 10_000, WIDE)) < 300


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("猫猫猫", 5, "猫猫…"), ("猫猫猫", 4, "猫…")],
)
def test_a_cut_is_marked(text, width, cut):
    assert s.fitted(text, width, WIDE) == cut


def test_padding_counts_cells():
    assert s.padded("猫", 4) == "猫  "
    assert s.padded("猫", 4, right=True) == "  猫"
    assert s.padded("long", 2) == "long"


def test_marks_stay_with_their_letter():
    assert s.letters("ae\u0301b") == ["a", "e\u0301", "b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.31, "0.310"),
        (12.44, "12.4"),
        (100.0, "100"),
        (131072.0, "131072"),
        (0.0, "0"),
        (-2.5, "-2.50"),
        (3.1e-5, "3.10e-05"),
        (2e7, "2.00e+07"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers(value, text):
    assert s.number(value) == text
