"""Bars and profiles: something is never drawn as nothing, nothing leaves its box."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.draw import Paper, bar, binned, spark
from regard.draw.spelling import cells

FANCY, SIMPLE = Paper(), Paper(is_ascii=True)


@pytest.mark.parametrize(
    ("share", "fancy", "simple"),
    [(1, "██████████", "##########"), (0.5, "█████", "#####"), (0.05, "▌", "#"), (0, "", "")],
)
def test_bars(share, fancy, simple):
    assert bar(share, 10, FANCY) == fancy
    assert bar(share, 10, SIMPLE) == simple


@given(st.floats())
def test_bars_stay_in_their_box(share):
    for paper in (FANCY, SIMPLE):
        shown = bar(share, 7, paper)
        assert cells(shown) <= 7
        assert bool(shown) == (share > 0)


def test_profiles():
    assert spark([0, 1, 4, 8], FANCY) == "▁▂▅█"
    assert spark([0, 1, 4, 8], SIMPLE) == ".:+@"
    assert spark([0.5, np.nan, 2.0], FANCY, high=1.0) == "▅ █"
    assert spark([0.0, 0.0], FANCY) == "▁▁"
    assert spark([], FANCY) == ""


def test_a_small_spike_is_seen():
    assert spark([1, 100], FANCY) == "▂█"
    assert spark([0.1, 100], FANCY) == "▁█"


def test_long_profiles_are_averaged():
    means = binned(np.arange(100.0), 10)
    assert means.tolist() == [4.5 + 10 * n for n in range(10)]
    assert binned([1.0, 2.0], 10).tolist() == [1.0, 2.0]


def test_what_is_missing_does_not_count():
    given = np.full(20, np.nan)
    given[:2] = 3.0
    means = binned(given, 5)
    assert means[0] == 3.0 and np.isnan(means[1:]).all()
