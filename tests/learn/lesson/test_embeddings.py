"""Where the vectors of words come from, and those of places by their definition."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.learn.languages import language
from regard.learn.lesson.embeddings import embed, made_up, sinusoids


def write(tmp_path, value) -> object:
    path = tmp_path / "words.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_the_notes_embeddings_whatever_the_case():
    given_ = embed(["THE", "Cat", "sat"])
    assert given_.x.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
    assert given_.made_up == ()
    assert language("en")(given_.source) == "the notes' own"
    assert given_.width == 4


def test_other_words_are_made_up_and_said_to_be():
    given_ = embed(["The", "dog", "saw", "the", "dog"])
    assert given_.made_up == ("dog", "saw")
    assert "The, the from the notes; dog, saw made up" in language("en")(given_.source)
    assert "mean nothing" in language("en")(given_.source)
    assert given_.x[1].tolist() == given_.x[4].tolist() == made_up("dog").tolist()
    assert language("en")(embed(["dog"]).source).startswith("dog made up")


@pytest.mark.parametrize(
    ("word", "vector"),
    [
        ("dog", [0.9, -1.2, 1.0, -1.0]),
        ("sleeps", [-0.8, 0.0, -1.5, 1.0]),
        ("café", [-1.4, 1.1, -0.9, -0.8]),
        ("猫", [0.6, 0.6, 1.2, -0.4]),
    ],
)
def test_made_up_vectors_are_pinned(word, vector):
    assert made_up(word).tolist() == vector
    assert made_up(word.upper(), 6)[:4].tolist() == vector


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1))
def test_any_word_has_a_vector_of_moderate_size(word):
    vector = made_up(word)
    assert vector.shape == (4,)
    assert np.abs(vector).max() <= 1.8


def test_made_up_vectors_have_about_unit_variance():
    many = np.stack([made_up(f"word{n}") for n in range(2000)])
    assert many.std() == pytest.approx(1.0, abs=0.03)
    assert np.abs(np.corrcoef(many.T) - np.eye(4)).max() < 0.08


def test_positions_are_added():
    plain, placed = embed(["The", "cat"]), embed(["The", "cat"], positions=True)
    assert plain.positions is None
    assert placed.positions is not None
    assert placed.positions[0].tolist() == [0, 1, 0, 1]
    assert np.array_equal(placed.x, plain.words + placed.positions)
    assert np.array_equal(placed.words, plain.words)


def test_a_map_from_word_to_vector(tmp_path):
    path = write(tmp_path, {"the": [1, 2], "Cat": [3, 4], "unused": [5, 6]})
    given_ = embed(["The", "cat", "THE"], file=path)
    assert given_.x.tolist() == [[1, 2], [3, 4], [1, 2]]
    assert language("en")(given_.source) == "from words.json"
    assert given_.made_up == ()


def test_the_exact_word_wins_over_its_other_case(tmp_path):
    path = write(tmp_path, {"us": [1], "US": [2]})
    assert embed(["US", "us"], file=path).x.tolist() == [[2], [1]]


def test_one_vector_per_token(tmp_path):
    path = write(tmp_path, [[1, 2, 3], [4, 5, 6]])
    given_ = embed(["a", "a"], file=path)
    assert given_.x.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert given_.width == 3


def test_too_few_vectors(tmp_path):
    with pytest.raises(ShapeError, match="2 vectors for 3 tokens; give one vector per token"):
        embed(["a", "b", "c"], file=write(tmp_path, [[1], [2]]))


def test_missing_words_are_all_named(tmp_path):
    with pytest.raises(InputError, match="no vector for dog, ran; add them"):
        embed(["the", "dog", "ran"], file=write(tmp_path, {"the": [1]}))


def test_vectors_of_different_width(tmp_path):
    with pytest.raises(ShapeError, match="'a' has 2 numbers and 'b' has 1"):
        embed(["a", "b"], file=write(tmp_path, {"a": [1, 2], "b": [1]}))


def test_a_wrong_number_names_its_word(tmp_path):
    with pytest.raises(InputError, match="'b', column 2 is \"x\", not a number"):
        embed(["a", "b"], file=write(tmp_path, {"a": [1, 2], "b": [1, "x"]}))


@pytest.mark.parametrize("value", [3, "x", None, [], {}])
def test_what_is_neither_map_nor_list_is_refused(tmp_path, value):
    with pytest.raises(InputError, match="--embeddings"):
        embed(["a"], file=write(tmp_path, value))


def test_the_first_place_is_zeros_and_ones():
    assert sinusoids(1, 4).tolist() == [[0, 1, 0, 1]]


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 64])
def test_every_cell_by_the_formula(width):
    table = sinusoids(20, width)
    for p in range(20):
        for d in range(width):
            angle = p / 10000 ** (2 * (d // 2) / width)
            expected = math.sin(angle) if d % 2 == 0 else math.cos(angle)
            assert table[p, d] == pytest.approx(expected, abs=1e-12)


def test_no_two_places_are_alike():
    table = sinusoids(512, 4)
    assert len({row.tobytes() for row in table}) == 512
    assert np.abs(table).max() <= 1
