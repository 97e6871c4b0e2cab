"""The next word: logits of the last row, and what the temperature makes of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import InputError
from regard.learn import Options, make_lesson
from regard.learn.lesson.block import next_word, vocabulary_of

WORDS = ("a", "b", "c")
EMBEDDINGS = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
HIDDEN = np.array([1.0, 1.5])


def test_logits_are_dot_products_and_probabilities_their_softmax():
    found = next_word(HIDDEN, WORDS, EMBEDDINGS)
    np.testing.assert_allclose(found.logits, [1.0, 3.0, 2.5])
    e = np.exp([1.0, 3.0, 2.5])
    np.testing.assert_allclose(found.probabilities, e / e.sum())
    assert found.likeliest == "b"
    assert [found.words[n] for n in found.order] == ["b", "c", "a"]


def test_temperature_flattens_or_decides():
    cold, warm, hot = (
        next_word(HIDDEN, WORDS, EMBEDDINGS, temperature=t) for t in (0.2, 1.0, 50.0)
    )
    assert cold.entropy < warm.entropy < hot.entropy < np.log(3)
    np.testing.assert_array_equal(
        next_word(HIDDEN, WORDS, EMBEDDINGS, temperature=0).probabilities, [0, 1, 0]
    )


def test_at_temperature_0_the_first_of_equals_has_it_all():
    found = next_word(np.zeros(2), WORDS, EMBEDDINGS, temperature=0)
    np.testing.assert_array_equal(found.probabilities, [1, 0, 0])
    assert found.likeliest == "a" and found.entropy == 0


def test_the_vocabulary_is_the_known_words_then_those_of_the_sentence():
    rows = np.arange(8.0).reshape(4, 2)
    words, vectors = vocabulary_of(("The", "Fox.", "fox", "ran"), rows, {"the": (9.0, 9.0)})
    assert words == ["the", "fox", "ran"]
    np.testing.assert_array_equal(vectors, [[9, 9], [2, 3], [6, 7]])


def test_a_lesson_continues_from_its_last_row():
    lesson = make_lesson(Options("The cat sat on the mat", next=True, temperature=0.5, causal=True))
    assert lesson.block is not None and lesson.next is not None  # --next brings the block along
    assert lesson.next.words == ("the", "cat", "sat", "on", "mat")
    the = lesson.block.output[-1] @ [1.0, 0.0, 1.0, 0.0]
    assert lesson.next.logits[0] == pytest.approx(the)
    assert lesson.next.probabilities.sum() == pytest.approx(1)
    written = json.loads(json.dumps(lesson.as_dict(), allow_nan=False))["next"]
    assert written["likeliest"] == lesson.next.likeliest and written["temperature"] == 0.5


def test_a_lesson_without_it_has_none():
    lesson = make_lesson(Options("The cat sat", block=True))
    assert lesson.next is None and lesson.as_dict()["next"] is None


def test_words_of_a_file_are_the_only_ones(tmp_path):
    path = tmp_path / "words.json"
    path.write_text(json.dumps({"x": [1, 0, 2], "y": [0, 1, 1]}))
    lesson = make_lesson(Options("x y x", embeddings=path, next=True))
    assert lesson.next is not None and lesson.next.words == ("x", "y")


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_a_temperature_that_divides_nothing_is_refused(wrong):
    with pytest.raises(InputError, match="--temperature"):
        make_lesson(Options("The cat sat", temperature=wrong))
