"""Probabilities that labels are tested by."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.study.chance import (
    ALPHA,
    beyond_many,
    broken_stick,
    distinct,
    hoeffding,
    sharp_by_chance,
    sign_test,
    spelt_p,
    tokens_apart,
)


@pytest.mark.parametrize("rows", [1, 8, 40])
@pytest.mark.parametrize("chance", [0.02, 0.3, 0.7])
def test_the_bound_is_above_the_exact_probability(rows, chance):
    """Of coins, which reach a mean more often than anything else in [0, 1]."""
    weights = [math.comb(rows, k) * chance**k * (1 - chance) ** (rows - k) for k in range(rows + 1)]
    for k in range(rows + 1):
        assert sum(weights[k:]) <= hoeffding(k / rows, chance, rows).p + 1e-12
    assert hoeffding(1.0, chance, rows).p == pytest.approx(chance**rows)
    assert hoeffding(chance, chance, rows).p == 1


def test_choices_cost_and_rows_of_one_token_are_one_sample():
    assert hoeffding(0.8, 0.1, 20, 50).p == pytest.approx(50 * hoeffding(0.8, 0.1, 20).p)
    assert hoeffding(0.9, 0.5, 3, 10**400).p == 1  # no overflow
    few = hoeffding(0.9, 0.1, 40, samples=4)
    assert (few.rows, few.p) == (40, hoeffding(0.9, 0.1, 4).p)
    tokens = np.array([[1, 2], [3, 2], [1, 2], [1, 4]])
    assert (
        distinct(tokens, np.ones(4, bool)) == 3 and distinct(tokens[:, 1:], tokens[:, 0] > 0) == 2
    )
    assert distinct(None, np.array([True, False, True, True])) == 3
    assert not beyond_many(1e-4, 10) and beyond_many(1e-5, 10)


def test_tokens_lie_apart_where_others_do_not():
    ids, some = np.arange(60), np.arange(60) < 2
    spread, noise = np.ones(60), np.exp(np.random.default_rng(0).standard_normal(60))
    assert tokens_apart(np.stack([noise, spread], -1), ids, some, ~some) > 0.01
    raised = np.where(some, 40.0, noise)
    assert tokens_apart(np.stack([raised, spread], -1), ids, some, ~some) < 1e-4
    lowered = np.where(some, 0.01, noise)
    assert tokens_apart(np.stack([lowered, spread], -1), ids, some, ~some) > 0.9
    alike = np.where(some, 40.0, 1.0)
    p = tokens_apart(np.stack([alike, spread], -1), np.where(some, 0, 1), some, ~some)
    assert p == 1  # one other token shows nothing of how far tokens lie apart


@pytest.mark.parametrize(
    ("p", "spelt"),
    [(0.0, "< 1e-6"), (9.9e-7, "< 1e-6"), (1e-6, "1e-6"), (2.04e-5, "2e-5"), (0.04, "0.04"),
     (0.000321, "0.00032")],
)  # fmt: skip
def test_a_p_below_a_millionth_is_said_to_be_below(p, spelt):
    assert spelt_p(p) == spelt


@pytest.mark.parametrize("keys", [2, 5, 16, 200])
def test_broken_sticks_are_what_uniform_and_sharp_are_held_against(keys: int) -> None:
    """Their mean is where p is one half; their spread is no larger than the test takes it."""
    p = np.random.default_rng(keys).dirichlet(np.ones(keys), 20_000)
    even = -(p * np.log(np.maximum(p, 1e-300))).sum(-1) / math.log(keys)
    seen = np.full(64, keys)
    assert abs(broken_stick(float(even.mean()), seen, 64).p - 0.5) < 0.15
    high = float(even.mean() + 3.3 * even.std() / math.sqrt(64))
    assert broken_stick(high, seen, 64).p > ALPHA / 2
    peaks = float((p.max(-1) > 0.9).mean())
    assert sharp_by_chance(seen, 0.9) == pytest.approx(peaks, abs=0.01)
    assert sign_test(12, 12).p == pytest.approx(0.5**12) and sign_test(6, 12).p == 1
