"""Scales: what a share means, ticks that say it, round steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.colour.scale import TIMES_UNIFORM, Scale, short, steps, times_uniform_of

NUMBERS = st.floats(-1e9, 1e9)


def test_log_shares():
    found = TIMES_UNIFORM.shares([0.0, 0.1, 1.0, 10.0, 100.0, 1e9])
    np.testing.assert_allclose(found, [0, 0, 1 / 3, 2 / 3, 1, 1])
    assert np.isnan(TIMES_UNIFORM.shares(np.nan))


def test_the_ends_of_a_log_scale_stand_for_what_is_beyond():
    assert list(TIMES_UNIFORM.ticks().values()) == ["≤ 0.1", "1", "10", "≥ 100"]
    np.testing.assert_allclose(list(TIMES_UNIFORM.ticks()), [0, 1 / 3, 2 / 3, 1])


def test_ticks_of_a_linear_scale():
    assert Scale("x", 0.0, 1.0).ticks() == pytest.approx(
        {0.0: "0", 0.2: "0.2", 0.4: "0.4", 0.6: "0.6", 0.8: "0.8", 1.0: "1"}
    )
    assert list(Scale("x", 0.0, 0.37).ticks().values()) == ["0", "0.1", "0.2", "0.3"]


def test_in_words():
    assert str(TIMES_UNIFORM) == "× even share, log 0.1–100"
    assert str(Scale("weight", 0.0, 0.25)) == "weight, linear 0–0.25"


@pytest.mark.parametrize(
    ("low", "high", "most", "wanted"),
    [
        (0, 225, 3, [0, 200]),
        (0, 225, 5, [0, 100, 200]),
        (190, 199, 10, list(range(190, 200))),
        (0, 29, 10, [0, 5, 10, 15, 20, 25]),
        (0.0, 0.0, 5, [0.0]),
        (-1.0, 1.0, 5, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    ],
)
def test_round_steps(low, high, most, wanted):
    assert steps(low, high, most) == pytest.approx(wanted)


@given(NUMBERS, st.floats(1e-3, 1e6), st.integers(2, 12))
def test_steps_stay_inside_and_are_few(low, span, most):
    found = steps(low, low + span, most)
    slack = 1e-6 * (abs(low) + span)
    assert len(found) <= most
    assert all(low - slack <= x <= low + span + slack for x in found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (100, "100"), (0.0, "0"), (2500, "2500"), (0.00442, "0.00442"), (1e-7, "1e-07")],
)
def test_short_numbers(value, text):
    assert short(value) == text


def test_few_keys_have_all_colours():
    """Of five keys a weight of 0.8 is heavy, and nothing is 100 times an even share."""
    few = times_uniform_of(5)
    assert few.shares(0.8 * 5) > 0.9 and few.shares(1.0 * 5) == 1
    assert TIMES_UNIFORM.shares(0.8 * 5) < 0.6
    assert str(few) == "× even share (at most 5 keys), log 0.1–5"
    assert list(few.ticks().values()) == ["≤ 0.1", "1", "≥ 5"]
    assert times_uniform_of(100) is times_uniform_of(4096) is TIMES_UNIFORM
