"""Numbers out of JSON files, how wrong ones are named; made-up ones, the same for ever."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.errors import InputError, ShapeError
from regard.learn.lesson.numbers import as_matrix, as_vector, draws, read_json, seed_of


def test_a_matrix_is_read():
    matrix = as_matrix([[1, 2.5], [-3, 1e-3]], "w_q")
    assert matrix.dtype == np.float64
    assert matrix.tolist() == [[1.0, 2.5], [-3.0, 0.001]]


@given(
    arrays.arrays(
        np.float64, arrays.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-9, 9)
    )
)
def test_a_matrix_survives_json(matrix):
    assert np.array_equal(as_matrix(json.loads(json.dumps(matrix.tolist())), "w"), matrix)


@pytest.mark.parametrize("value", [None, 3, "x", {}, [], [1, 2], [[1], 2], "[[1]]"])
def test_what_is_no_matrix_is_refused(value):
    with pytest.raises(InputError, match=r"w_q is not a matrix; give a list of rows"):
        as_matrix(value, "w_q")


@pytest.mark.parametrize("value", [None, 3, "x", {}, []])
def test_what_is_no_vector_is_refused(value):
    with pytest.raises(InputError, match="'cat' is not a list of numbers"):
        as_vector(value, "'cat'")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("x", 'is "x", not a number'),
        (None, "is null, not a number"),
        (True, "is true, not a number"),
        ([1], "is [1], not a number"),
        (float("nan"), "is NaN; give a finite number"),
        (float("inf"), "is Infinity; give a finite number"),
        (float("-inf"), "is -Infinity; give a finite number"),
        (1e13, "give a finite number up to 1e12 in size"),
        (-(10**40), "give a finite number up to 1e12 in size"),
    ],
)
def test_a_wrong_cell_is_named_by_matrix_row_and_column(cell, words):
    with pytest.raises(InputError) as caught:
        as_matrix([[1, 2], [3, cell]], "w_k")
    assert str(caught.value).startswith("w_k, row 2, column 2 is ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_long_cell_is_cut():
    with pytest.raises(InputError) as caught:
        as_vector(["x" * 1000], "v")
    assert len(str(caught.value)) < 100


def test_ragged_rows_are_named():
    with pytest.raises(ShapeError, match="w_v is ragged: row 1 has 2 numbers and row 3 has 1"):
        as_matrix([[1, 2], [3, 4], [5]], "w_v")


def test_sides_have_a_limit():
    assert as_matrix([[0]] * 1024, "w").shape == (1024, 1)
    with pytest.raises(ShapeError, match="w has 1025 rows; the lesson takes at most 1024"):
        as_matrix([[0]] * 1025, "w")
    with pytest.raises(ShapeError, match="row 1 has 1025 numbers"):
        as_matrix([[0] * 1025], "w")


def test_names_with_braces_are_only_names():
    with pytest.raises(ShapeError, match=r"\{0\} has 1025 rows"):
        as_matrix([[0]] * 1025, "{0}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON at line 1, column 2"),
        (b'{"a": 1,\n "b" 2}', "not valid JSON at line 2, column 6"),
        (b"", "not valid JSON at line 1, column 1"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_broken_file_says_where(tmp_path, content, words):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_json(path, "--projections")
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"--projections {path}: ")


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_json(tmp_path / "gone.json", "--embeddings")
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path, "--embeddings")


def test_a_huge_file_is_refused_without_reading_it_all(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(40 * 2**20)
    with pytest.raises(InputError, match="more than 32 MiB"):
        read_json(path, "--embeddings")


def test_numbers_of_thousands_of_digits_do_not_break_the_reader(tmp_path):
    path = tmp_path / "long.json"
    path.write_text("[[1" + "0" * 5000 + "]]")
    with pytest.raises(InputError, match="row 1, column 1 is Infinity"):
        as_matrix(read_json(path, "--projections"), "w_q")


def test_a_byte_order_mark_is_no_matter(tmp_path):
    path = tmp_path / "windows.json"
    path.write_text("[[1]]", encoding="utf-8-sig")
    assert read_json(path, "--embeddings") == [[1]]


def test_a_path_with_a_line_break_stays_on_one_line(tmp_path):
    with pytest.raises(InputError) as caught:
        read_json(tmp_path / "a\nb.json", "--embeddings")
    assert "\n" not in str(caught.value)


def test_the_numbers_are_pinned():
    """A change here changes every lesson that was ever printed."""
    assert draws([7, 1, 1], (2, 3)).tolist() == [[0.85, 0.43, -1.34], [1.05, 0.39, 0.56]]


@pytest.mark.parametrize(
    ("word", "seed"),
    [("dog", 14799769488196005352), ("sleeps", 6929824843143243821), ("猫", 12110389973168976770)],
)
def test_seeds_of_words_are_pinned(word, seed):
    assert seed_of(word) == seed


def test_case_and_encoding_of_accents_do_not_matter():
    assert seed_of("Café") == seed_of("café") == seed_of("cafe\u0301")
    assert seed_of("cafe") != seed_of("café")


@pytest.mark.parametrize("spread", [1.0, 0.5, 0.1])
def test_mean_and_deviation(spread):
    many = draws([3], (50_000,), spread=spread, decimals=6)
    assert abs(many.mean()) < 0.01
    assert many.std() == pytest.approx(spread, rel=0.01)
    assert np.abs(many).max() <= np.sqrt(3) * spread + 1e-6


@given(st.lists(st.integers(0, 2**63), min_size=1, max_size=4), st.integers(0, 4))
def test_numbers_are_rounded_and_never_minus_zero(seed, decimals):
    numbers = draws(seed, (50,), decimals=decimals)
    assert (np.round(numbers, decimals) == numbers).all()
    assert not np.signbit(numbers[numbers == 0]).any()


def test_more_numbers_begin_with_the_fewer():
    assert draws([5], (8,))[:4].tolist() == draws([5], (4,)).tolist()


def test_other_seeds_give_other_numbers():
    tables = [draws([7, head, which], (3, 3)) for head in range(1, 4) for which in range(1, 7)]
    assert len({table.tobytes() for table in tables}) == len(tables)
