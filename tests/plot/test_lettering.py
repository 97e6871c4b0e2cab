"""Texts: nothing that a font lacks, nothing that steers, nothing wider than its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.draw.paper import Paper
from regard.draw.spelling import visible as on_terminal
from regard.plot import lettering
from regard.plot.lettering import (
    cut,
    families,
    first_fitting,
    flowing,
    safe,
    visible,
    width,
    wrapped,
)
from support.recordings import HOSTILE


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" cat", "␣cat"),
        ("cat ", "cat␣"),
        ("  ", "␣␣"),
        ("\n", "⏎"),
        ("a\tb", "a→b"),
        ("", '""'),
        ("$5", "$5"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("naïve", "naïve"),
        ("√×−", "√×−"),
    ],
)
def test_tokens_are_visible(token, shown):
    assert visible(token) == shown


def test_a_letter_that_no_font_has_is_spelt_out(monkeypatch):
    monkeypatch.setattr(lettering, "_fonts", lambda: ())
    lettering._is_drawn.cache_clear()
    assert visible(" 猫") == "␣\\u732b"
    lettering._is_drawn.cache_clear()


def test_blanks_inside_running_text_stay():
    assert flowing(" cat\n") == " cat⏎"
    assert flowing("x" * 300) == "x" * 200 + "…"


@pytest.mark.parametrize("token", [token for token in HOSTILE if token != "猫"])
def test_spelt_as_on_a_terminal(token):
    assert visible(token) == on_terminal(token, Paper())


@given(st.text(max_size=20))
def test_whatever_is_shown_can_be_drawn(text):
    assert all(letter.isprintable() for letter in safe(text))


def test_width_grows_with_text_and_size():
    assert 0 < width("cat", 8) < width("cats", 8) < width("cats", 9)
    assert width("cat", 8, bold=True) > width("cat", 8)
    assert width("$5$", 8) > width("5", 8)  # no formula


@given(st.text("abcdefgh ", min_size=1, max_size=80), st.floats(15, 200))
def test_what_is_cut_fits(text, points):
    found = cut(text, points, 8)
    assert width(found, 8) <= points
    assert found == text or (found.endswith("…") and text.startswith(found[:-1]))


def test_the_first_wording_that_fits():
    words = ("times an even share: 1 is an even spread", "times an even share", "× even share")
    assert first_fitting(words, 500, 8) == words[0]
    assert first_fitting(words, 100, 8) == words[1]
    assert first_fitting(words, 60, 8) == words[2]
    assert first_fitting(words, 25, 8).endswith("…")


def test_sentences_are_wrapped_and_lose_no_word():
    text = "one token a cell; × even share, log 0.1–100; and more words to come"
    lines = wrapped(text, 120, 7.5)
    assert len(lines) > 1 and " ".join(lines) == text
    assert all(width(line, 7.5) <= 120 for line in lines)
    assert wrapped("", 100, 8) == []
    assert wrapped("x" * 200, 50, 8)[0].endswith("…")


def test_the_font_that_comes_with_matplotlib_is_first():
    assert families()[0] == "DejaVu Sans"
