"""Matrices as grids of text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.learn.languages import language
from regard.learn.story.tables import LARGEST, dims, grid


def names(count: int, letter: str = "t") -> list[str]:
    return [f"{letter}{n}" for n in range(count)]


def test_a_small_matrix_is_whole():
    made = grid("Q", np.eye(2), ["The", "cat"], dims("q", 2), "q", say=language("en"))
    assert made.rows == ("The", "cat")
    assert made.columns == ("q1", "q2")
    assert made.cells == (("1", "0"), ("0", "1"))
    assert made.shades is None
    assert made.remark == ""


def test_shades_are_the_numbers_and_hidden_cells_have_none():
    made = grid(
        "w",
        np.array([[1.0, -np.inf]]),
        ["a"],
        ["a", "b"],
        "weight",
        shaded=True,
        say=language("en"),
    )
    assert made.cells == (("1", "·"),)
    assert made.shades == ((1.0, 0.0),)


@pytest.mark.parametrize("count", [1, LARGEST])
def test_up_to_the_limit_nothing_is_left_out(count):
    made = grid(
        "s", np.zeros((count, count)), names(count), names(count), "score", say=language("en")
    )
    assert len(made.rows) == len(made.columns) == count
    assert made.remark == ""


def test_beyond_the_limit_the_first_and_last_stay_and_it_says_so():
    matrix = np.arange(100 * 3).reshape(100, 3).astype(float)
    made = grid("Q", matrix, names(100), dims("q", 3), "q", say=language("en"))
    assert made.rows == ("t0", "t1", "t2", "t3", "t4", "t5", "⋮", "t97", "t98", "t99")
    assert made.cells[5] == ("15", "16", "17")
    assert made.cells[6] == ("…", "…", "…")
    assert made.cells[-1] == ("297", "298", "299")
    assert made.remark == "shown: 9 of 100 rows; --json has all"


def test_rows_and_columns_are_cut_alike():
    made = grid("w", np.eye(50), names(50), names(50), "weight", shaded=True, say=language("en"))
    assert made.columns[6] == "…"
    assert made.remark == "shown: 9 of 50 rows, 9 of 50 columns; --json has all"
    assert made.shades is not None
    assert made.shades[0][0] == made.shades[-1][-1] == 1.0
    assert made.shades[6] == (0.0,) * 10


@given(st.integers(1, 120), st.integers(1, 120))
def test_grids_are_rectangular(rows, columns):
    matrix = np.random.default_rng(0).normal(size=(rows, columns))
    made = grid(
        "x", matrix, names(rows), names(columns, "c"), "plain", shaded=True, say=language("en")
    )
    assert len(made.cells) == len(made.rows) <= LARGEST
    assert {len(row) for row in made.cells} == {len(made.columns)}
    assert made.shades is not None
    assert {len(row) for row in made.shades} == {len(made.columns)}
    assert made.cells[-1][-1] == f"{matrix[-1, -1]:.4f}".replace("-0.0000", "0.0000")
