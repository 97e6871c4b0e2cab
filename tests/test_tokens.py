"""Text to ids and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.tokens import Vocabulary


@given(st.text(min_size=1, max_size=40), st.sampled_from(["word", "character"]))
def test_every_piece_has_an_id_in_sorted_order_and_comes_back(text, unit):
    """Characters exactly, words with single spaces between them."""
    pieces = text.split() if unit == "word" else list(text)
    if not pieces:
        return
    vocabulary = Vocabulary.of(text, unit)
    assert list(vocabulary.tokens) == sorted(set(pieces)) and len(vocabulary) == len(set(pieces))
    assert [vocabulary.tokens[n] for n in vocabulary.encode(text)] == pieces
    whole = " ".join(pieces) if unit == "word" else text
    assert vocabulary.decode(vocabulary.encode(text)) == whole


def test_the_notes_sentence():
    vocabulary = Vocabulary.of("The cat sat")
    assert vocabulary.tokens == ("The", "cat", "sat")
    assert vocabulary.encode("sat The") == [2, 0]
    assert vocabulary.encode("") == []
    assert vocabulary.decode([]) == ""


def test_ids_may_come_as_a_tensor():
    assert Vocabulary(("a", "b")).decode(torch.tensor([1, 0])) == "b a"


def test_a_vocabulary_is_a_value():
    assert Vocabulary(["a", "b"]) == Vocabulary(("a", "b"))
    assert len({Vocabulary(["a"]), Vocabulary(("a",))}) == 1


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: Vocabulary.of("a", "letter"), ["unit='letter'", "'word' or 'character'"]),
        (lambda: Vocabulary(("a",), "letter"), ["unit='letter'"]),
        (lambda: Vocabulary(("a", "b", "b")), ["'b'", "2 times", "each once"]),
        (lambda: Vocabulary.of("  \n"), ["no words", "at least one"]),
        (lambda: Vocabulary.of("", "character"), ["no characters"]),
        (lambda: Vocabulary(("a", "b")).encode("b c d"), ["'c'", "2 known words", "'a', 'b'"]),
        (lambda: Vocabulary(("a", "b")).decode([0, 2]), ["id 2", "0 to 1"]),
        (lambda: Vocabulary(("a", "b")).decode([-1]), ["id -1", "0 to 1"]),
    ],
)
def test_errors_say_what_was_given_and_what_would_work(ask, words):
    with pytest.raises(InputError) as refused:
        ask()
    for word in words:
        assert word in str(refused.value)
