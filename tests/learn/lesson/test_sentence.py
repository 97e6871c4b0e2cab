"""The sentence and the row that is spelt out."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.learn.lesson.sentence import MAX_TOKENS, read_sentence


def test_words_between_blanks():
    sentence = read_sentence("  The\tcat \n sat. ")
    assert sentence.tokens == ("The", "cat", "sat.")
    assert sentence.focus == 0
    assert sentence.name == "The"
    assert len(sentence) == 3


@pytest.mark.parametrize(
    ("text", "token", "focus"),
    [
        ("The cat sat", "cat", 1),
        ("The cat sat", "SAT", 2),
        ("The cat sat", "2", 1),
        ("The cat saw the dog", "the", 3),
        ("The cat saw the dog", "The", 0),
        ("a b a", "a₂", 2),
        ("a b a", "3", 2),
        ("in 1984", "1984", 1),
        ("two 1 words", "1", 1),  # a word wins over a position
        ("part 2 of 2", "2", 1),  # and of two such words the position tells which
        ("part 2 of 2", "4", 3),
        ("extraordinarily good", "extraordina…", 0),
    ],
)
def test_a_token_is_found(text, token, focus):
    assert read_sentence(text, token).focus == focus


def test_an_unknown_token_names_the_tokens():
    with pytest.raises(InputError, match=r"'dog' is not in the sentence; its tokens are The, cat"):
        read_sentence("The cat sat", "dog")


@pytest.mark.parametrize("token", ["0", "4", "-1", "", "99999999999999999999999", "٣٤"])
def test_positions_outside_are_unknown_tokens(token):
    with pytest.raises(InputError, match="or give a position, 1 to 3"):
        read_sentence("The cat sat", token)


def test_a_repeated_token_asks_for_a_position():
    with pytest.raises(InputError, match="'a' stands at positions 1, 3; give one of these"):
        read_sentence("a b a", "a")
    with pytest.raises(InputError, match="stands at positions 1, 2"):
        read_sentence("The THE cat", "the")


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u2003"])
def test_an_empty_sentence_is_refused(text):
    with pytest.raises(InputError, match="the sentence is empty"):
        read_sentence(text)


def test_the_longest_sentence_and_one_more():
    assert len(read_sentence("w " * MAX_TOKENS)) == MAX_TOKENS
    with pytest.raises(InputError, match=r"has 513 tokens and the lesson takes at most 512"):
        read_sentence("w " * (MAX_TOKENS + 1))


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InputError, match="not valid text at character 3"):
        read_sentence("a \udcff b")


@given(st.text())
def test_every_position_finds_its_row(text):
    assume(text.split() and len(text.split()) < 50)
    assume(not any("\ud800" <= c <= "\udfff" for c in text))
    tokens = read_sentence(text).tokens
    for i in range(len(tokens)):
        if str(i + 1) not in tokens:
            assert read_sentence(text, str(i + 1)).focus == i
