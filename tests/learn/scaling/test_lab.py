"""The scaling lab measures what it says, and its figures are those of the notes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from regard.attention import softmax
from regard.errors import InputError
from regard.learn.scaling.lab import (
    MAX_CELLS,
    gradient_at_query,
    measure,
    powers_of_two,
    temperature,
)


@pytest.fixture(scope="module")
def at_1024():
    (reading,) = measure([1024])
    return reading


def test_at_1024_the_median_row_vanishes_undivided(at_1024):
    assert at_1024.scaled.gradient_median == pytest.approx(0.27, abs=0.01)
    assert 1e-4 < at_1024.raw.gradient_median < 1e-3


def test_at_1024_the_rare_rows_explode_undivided(at_1024):
    assert at_1024.scaled.gradient_p99 == pytest.approx(0.62, abs=0.06)
    assert 17 < at_1024.raw.gradient_p99 < 25


def test_at_1024_half_the_rows_are_dead_undivided_and_none_divided(at_1024):
    assert 0.5 < at_1024.raw.dead < 0.6
    assert at_1024.scaled.dead == 0


def test_one_norm_alone_would_say_the_opposite(at_1024):
    assert 9 < at_1024.raw.gradient_rms / at_1024.scaled.gradient_rms < 18


def test_division_undoes_the_growth_of_the_variance():
    for reading in measure([4, 64, 512], rows=2048):
        assert reading.raw.variance == pytest.approx(reading.d_k, rel=0.08)
        assert reading.scaled.variance == pytest.approx(1, rel=0.08)


def test_weights_sharpen_undivided_and_stay_divided():
    small, large = measure([4, 512], rows=2048)
    assert small.raw.largest_weight < 0.5 < 0.99 < large.raw.largest_weight
    assert large.scaled.largest_weight == pytest.approx(small.scaled.largest_weight, abs=0.05)
    assert large.raw.entropy < 0.3 < 2 < large.scaled.entropy < np.log(16)


def test_dividing_by_one_changes_nothing():
    (reading,) = measure([1], rows=500)
    assert reading.raw == reading.scaled


def test_gradient_agrees_with_finite_differences():
    rng = np.random.default_rng(3)
    query, keys, upstream = rng.normal(size=5), rng.normal(size=(4, 5)), rng.normal(size=4)
    factor = 1 / np.sqrt(5)

    def loss(q):
        return float(upstream @ softmax(factor * (keys @ q)[None])[0])

    steps = 1e-6 * np.eye(5)
    expected = [(loss(query + h) - loss(query - h)) / 2e-6 for h in steps]
    x = factor * (keys @ query)[None]
    gradient, _ = gradient_at_query(x, upstream[None], keys, factor)
    np.testing.assert_allclose(gradient[0], expected, atol=1e-8)


def test_a_saturated_row_keeps_its_tiny_gradient():
    # Two keys, 50 apart: p₁p₂(g₁ − g₂)(k₁ − k₂), far below what 1 − p can hold.
    keys, upstream = np.array([[1.0], [3.0]]), np.array([[0.3, -1.1]])
    gradient, _ = gradient_at_query(np.array([[50.0, 0.0]]), upstream, keys, 1.0)
    expected = np.exp(-50.0) / (1 + np.exp(-50.0)) ** 2 * (0.3 + 1.1) * (1.0 - 3.0)
    np.testing.assert_allclose(gradient[0, 0], expected, rtol=1e-12)


def test_a_d_k_reads_the_same_alone_and_in_company():
    alone = list(measure([64], rows=200, seed=5))
    _, among = measure([8, 64], rows=200, seed=5)
    assert alone == [among]
    assert alone != list(measure([64], rows=200, seed=6))


def test_rows_need_not_be_a_multiple_of_the_keys():
    (reading,) = measure([8], keys=7, rows=101)
    assert (reading.raw.dead * 101) % 1 == pytest.approx(0)


def test_the_largest_d_k_fits_in_300_megabytes():
    tracemalloc.start()
    list(measure([4096], rows=1024))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"d_ks": []}, "d_k must be"),
        ({"d_ks": [0]}, "d_k must be"),
        ({"d_ks": [4], "keys": 1}, "at least 2 keys"),
        ({"d_ks": [4], "rows": 99}, "at least 100 rows"),
        ({"d_ks": [4], "seed": -1}, "seed"),
        ({"d_ks": [MAX_CELLS]}, "keys × d_k"),
        ({"d_ks": [1], "keys": 4096}, "keys × keys"),
    ],
)
def test_senseless_requests_are_refused_before_anything_is_drawn(kwargs, words):
    with pytest.raises(InputError, match=words):
        measure(**kwargs)


def test_powers_of_two_end_with_the_largest_asked_for():
    assert powers_of_two(1) == (1,)
    assert powers_of_two(8) == (1, 2, 4, 8)
    assert powers_of_two(10) == (1, 2, 4, 8, 10)
    with pytest.raises(InputError, match="at least 1"):
        powers_of_two(0)


def test_the_note_example_is_temperature():
    raw, divided = temperature()
    assert raw.scores == (6, 4) and divided.scores == (3, 2)
    assert np.round(raw.weights, 4).tolist() == [0.8808, 0.1192]
    assert np.round(divided.weights, 4).tolist() == [0.7311, 0.2689]
    assert round(raw.slope, 3) == 0.105 and round(divided.slope, 3) == 0.098
