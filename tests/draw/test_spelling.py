"""Tokens are somebody else's text; nothing in them may reach a terminal as a command."""

from __future__ import annotations

import math

import pytest

from regard.draw import Paper
from regard.draw import spelling as s

FANCY, SIMPLE = Paper(), Paper(is_ascii=True)
PAPERS = pytest.mark.parametrize("paper", [FANCY, SIMPLE], ids=["unicode", "ascii"])

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
    assert s.visible(token, FANCY) == fancy
    assert s.visible(token, SIMPLE) == simple


def test_tokens_in_a_text_keep_their_blanks():
    assert s.flowing(" cat\n", FANCY) == " cat⏎"
    assert s.flowing("", FANCY) == ""


@PAPERS
@pytest.mark.parametrize("token", HOSTILE)
def test_nothing_steers_the_terminal(token, paper):
    for shown in (s.visible(token, paper), s.flowing(token, paper), s.label(token, 8, paper)):
        assert shown.isprintable()


def test_marks_without_a_width_are_cut_too():
    assert len(s.visible("e" + "\u0301" * 10_000, FANCY)) < 300


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("猫猫猫", 5, "猫猫…"), ("猫猫猫", 4, "猫…")],
)
def test_a_cut_is_marked(text, width, cut):
    assert s.fitted(text, width, FANCY) == cut


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
