"""Numbers as text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.learn.figures import bracketed, column, factor, figure, figures, short_indices

FINITE = st.floats(-9e3, 9e3)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1, 0, 1], ["1", "0", "1"]),
        ([0.5, 1], ["0.5", "1.0"]),
        ([0.42231, 1], ["0.4223", "1.0000"]),
        ([1e-9, 2], ["0", "2"]),
        ([-1e-9], ["0"]),
        ([-0.0], ["0"]),
        ([0.1 + 0.2], ["0.3"]),
        ([-np.inf, 1], ["·", "1"]),
        ([-np.inf], ["·"]),
        ([12345678.0, 0.5], ["1.235e+07", "0.5"]),
        ([], []),
    ],
)
def test_a_group_has_as_many_decimals_as_it_needs(values, texts):
    assert figures(values) == texts


@given(st.lists(FINITE, min_size=1))
def test_texts_are_the_numbers_to_four_decimals(values):
    for value, text in zip(values, figures(values), strict=True):
        assert float(text) == pytest.approx(value, abs=5.1e-5)
        assert not text.startswith("-0") or float(text) != 0


@given(st.lists(FINITE, min_size=1))
def test_all_texts_of_a_group_have_the_same_decimals(values):
    assert len({len(text.partition(".")[2]) for text in figures(values)}) == 1


@given(st.lists(FINITE, min_size=1))
def test_columns_are_aligned(values):
    assert len({len(text) for text in column(values)}) == 1


def test_one_number_alone():
    assert figure(2.0) == "2"
    assert figure(1.41421356) == "1.4142"


def test_negative_factors_are_bracketed():
    assert factor("-1.5") == "(-1.5)"
    assert factor("1.5") == "1.5"


def test_vectors():
    assert bracketed(["1", "0"]) == "[1 0]"
    assert bracketed([str(n) for n in range(8)]) == "[0 1 2 3 4 5 6 7]"
    assert bracketed([str(n) for n in range(20)]) == "[0 1 2 3 4 … 19]"
    assert bracketed([str(n) for n in range(20)], 5) == "[0 1 … 19]"


@given(st.integers(0, 100), st.integers(4, 10))
def test_short_indices_are_few_and_end_with_the_last(count, most):
    kept = short_indices(count, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    assert not count or (kept[0] == 0 and kept[-1] == count - 1)
    assert count > most or kept == list(range(count))
