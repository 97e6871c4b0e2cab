"""A band holds whatever its sources may have been."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import softmax
from regard.learn.grading.bands import Band
from regard.learn.grading.submission import Printed

bands = st.lists(
    st.tuples(st.floats(-3, 3), st.floats(0, 0.5), st.floats(-1, 1)), min_size=6, max_size=6
)


def band_and_point(cells, shape):
    value, slack, where = (np.array(part).reshape(shape) for part in zip(*cells, strict=True))
    return Band.around(value, slack), value + slack * where


@settings(max_examples=60, deadline=None)
@given(bands, bands)
def test_a_band_holds_every_result_of_numbers_within_its_sources(left, right):
    a, x = band_and_point(left, (2, 3))
    b, y = band_and_point(right, (3, 2))
    for band, point in ((a @ b, x @ y), (a.softmax(), softmax(x)), (a.softmax(0), softmax(x.T).T)):
        assert (band.low <= point + 1e-9).all() and (point <= band.high + 1e-9).all()


def test_a_factor_widens_a_band_with_its_numbers():
    half = Band.around(np.array([[2.0, 4.0]]), 0.5) * 0.5
    assert (half.low.tolist(), half.high.tolist()) == ([[0.75, 1.75]], [[1.25, 2.25]])


@pytest.mark.parametrize(
    ("printed", "unit", "allowed"),
    [(0.42, 0.01, True), (0.44, 0.01, True), (0.45, 0.01, False), (0.42, 0.0, False)],
)
def test_a_printed_number_may_be_one_unit_off(printed, unit, allowed):
    band = Band.around(np.array([[0.4255]]))
    given_ = Printed(np.array([[printed]]), np.array([[unit]]))
    assert band.allows(given_).item() is allowed


def test_a_blank_cell_is_never_allowed():
    blank = Printed(np.array([[np.nan]]), np.array([[0.1]]))
    assert not Band.around(np.array([[0.0]]), 9.0).allows(blank).any()
