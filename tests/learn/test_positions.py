"""Sinusoids by their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.learn.positions import sinusoids


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
