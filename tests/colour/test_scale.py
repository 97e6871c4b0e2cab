"""Scales: what a share means, where they begin and end, ticks that say it, round steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.colour import TIMES_UNIFORM, Scale, linear, short, steps, times_uniform_of

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


VALUES = st.floats(-1e6, 1e6)
POSITIVE = st.floats(1e-6, 1e6)


# ── linear ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0.1, 0.9], 0.0, 0.9),  # 0 is near
        ([0.5, 0.9], 0.5, 0.9),  # 0 is far
        ([-3.0, 5.0], -3.0, 5.0),
        ([-5.0, -3.0], -5.0, -3.0),
        ([2.0, np.nan, np.inf, 8.1], 0.0, 8.1),
        ([], 0.0, 1.0),
        ([np.nan, -np.inf], 0.0, 1.0),
        ([4.0], 4.0, 4.0),
        ([[0.0, 0.0]], 0.0, 0.0),
    ],
)
def test_ends(values: list[float], low: float, high: float) -> None:
    found = linear("weight", values)
    assert (found.name, found.low, found.high, found.is_log) == ("weight", low, high, False)


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_every_value_has_its_share_and_the_largest_is_1(values: list[float]) -> None:
    scale = linear("x", values)
    shares = scale.shares(values)
    assert ((shares >= 0) & (shares <= 1)).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(shares[order]) >= 0).all()
    if scale.high > scale.low:
        assert shares[int(np.argmax(values))] == 1
        back = scale.low + shares * (scale.high - scale.low)
        np.testing.assert_allclose(back, values, atol=1e-6 * max(map(abs, values)))


# ── logarithmic ──────────────────────────────────────────────────────────────────────────────


@given(POSITIVE, POSITIVE, st.floats(1e-3, 1e3))
def test_equal_factors_are_equal_ways(one: float, other: float, factor: float) -> None:
    scale = Scale("x", 1e-12, 1e12, is_log=True)
    a, b, c, d = scale.shares([one, one * factor, other, other * factor])
    assert b - a == pytest.approx(d - c, abs=1e-9)


def test_nothing_and_less_than_nothing_lie_below_a_log_scale() -> None:
    found = TIMES_UNIFORM.shares([[0.0, -1.0], [np.inf, np.nan]])
    assert found[0].tolist() == [0, 0] and found[1, 0] == 1 and np.isnan(found[1, 1])


# ── ticks ────────────────────────────────────────────────────────────────────────────────────


@given(VALUES, POSITIVE)
def test_ticks_stand_where_they_say(low: float, span: float) -> None:
    if span < 1e-5 * abs(low):
        return  # three digits cannot tell such values apart
    scale = Scale("x", low, low + span)
    found = scale.ticks()
    assert 1 <= len(found) <= 6
    for share, text in found.items():
        assert 0 <= share <= 1
        value = low + share * span
        assert float(text) == pytest.approx(value, rel=6e-3, abs=1e-6 * span + 1e-9)


@given(st.integers(-6, 3), st.integers(1, 6))
def test_ticks_of_decades(first: int, count: int) -> None:
    scale = Scale("x", 10.0**first, 10.0 ** (first + count), is_log=True)
    shares, texts = zip(*scale.ticks().items(), strict=True)
    assert len(texts) == count + 1
    np.testing.assert_allclose(shares, np.linspace(0, 1, count + 1), atol=1e-9)
    assert texts[0].startswith("≤ ") and texts[-1].startswith("≥ ")


@pytest.mark.parametrize("ends", [(0.0, np.inf), (np.nan, 1.0), (3.0, 3.0), (5.0, 2.0)])
def test_ends_that_span_nothing_have_one_step(ends: tuple[float, float]) -> None:
    assert len(steps(*ends, 5)) == 1


# ── numbers in words ─────────────────────────────────────────────────────────────────────────


@given(st.floats(-1e12, 1e12))
def test_short_numbers_are_the_number_to_three_digits(value: float) -> None:
    text = short(value)
    assert float(text) == pytest.approx(value, rel=6e-3)
    assert len(text) <= len("-1.23e-123")


def test_large_numbers_below_a_million_are_spelt_out() -> None:
    assert [short(n) for n in (999_999, 12_345.6, 1e6, -54_321)] == [
        "999999", "12346", "1e+06", "-54321",
    ]  # fmt: skip
