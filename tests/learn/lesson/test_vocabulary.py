"""Words that have a vector: what they are looked up by, and what their numbers mean."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from regard.learn import Options, make_lesson
from regard.learn.lesson.embeddings import bare, features, made_up, notes, smollm2

SENTENCES = (
    "The cat sat",
    "She sat on the bank of the river",
    "She put the money in the bank",
    "The animal did not cross the street because it was too tired",
    "The cat chased the mouse because it was hungry",
)


def nearer(word, to, than):
    """Whether the angle of a word's vector to one is smaller than to another."""
    a, b, c = (smollm2().vector(w) / np.linalg.norm(smollm2().vector(w)) for w in (word, to, than))
    return a @ b > a @ c


@pytest.mark.parametrize(
    ("word", "plain"),
    [("River.", "river"), ("“Bank”", "bank"), ("don't", "don't"), ("…", "…"), ("🙂!", "🙂")],
)
def test_words_are_looked_up_without_punctuation(word, plain):
    assert bare(word) == plain
    assert made_up(word, 8).tolist() == made_up(plain, 8).tolist()


@pytest.mark.parametrize("vocabulary", [notes(), features(), smollm2()], ids=lambda v: v.name)
def test_case_and_punctuation_make_no_difference(vocabulary):
    assert "Cat." in vocabulary
    assert vocabulary.vector("CAT,").tolist() == vocabulary.vector("cat").tolist()
    assert "blorp" not in vocabulary
    assert vocabulary.vector("Blorp").tolist() == made_up("blorp", vocabulary.width).tolist()


def test_features_have_names_and_words_without_any_are_known():
    words = features()
    assert dict(zip(words.names, words.vector("fish"), strict=True)) == {
        "person": 0, "animal": 2, "thing": 0, "place": 0,
        "water": 1, "money": 0, "action": 0, "past": 0,
    }  # fmt: skip
    assert "the" in words
    assert not words.vector("the").any()


def test_no_word_has_two_sets_of_features():
    given = json.loads((files("regard.learn.lesson") / "features.json").read_text("utf-8"))
    words = [word for group in given["words"].values() for word in group.split()]
    assert sorted(words) == sorted(set(words))
    assert all(word == bare(word) for word in words)


@pytest.mark.parametrize(
    ("word", "to", "than"),
    [
        ("cat", "dog", "money"),
        ("river", "lake", "king"),
        ("money", "income", "river"),
        ("walked", "jumped", "street"),
        ("street", "village", "cat"),
        ("she", "he", "water"),
        ("hungry", "tired", "coin"),
    ],
)
def test_a_real_models_words_lie_near_those_of_their_kind(word, to, than):
    assert nearer(word, to, than)


def test_a_real_models_words_are_of_a_size_to_work_with():
    rows = np.array(list(smollm2().words.values()))
    assert rows.shape == (len(rows), 8)
    assert len(rows) > 2500
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.full(len(rows), 2.5), abs=0.05 * 8**0.5)
    assert np.array_equal(rows, np.round(rows, 1))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_weights_of_a_real_models_words_are_neither_even_nor_saturated(sentence):
    lesson = make_lesson(Options(sentence, vectors="smollm2"))
    largest = lesson.heads[0].weights.max(axis=1)
    assert lesson.embedding.made_up == ()
    assert (largest < 0.9).all()
    assert (largest > 1.3 / len(lesson.sentence)).all()


def test_the_file_of_a_real_models_words_is_small():
    file = files("regard.learn.lesson") / "smollm2_words.json"
    assert len(file.read_bytes()) < 80_000
