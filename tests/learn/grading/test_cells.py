"""One cell: what it comes to, and what is no number."""

from __future__ import annotations

import math

import pytest

from regard.errors import InputError
from regard.learn.grading.cells import read_number


@pytest.mark.parametrize(
    "text",
    ["0.14", "about 0.14", "≈ 0.14", "ca. 0.14", "etwa 0,14", "约 0.14", "大约0.14", "= 0.14",
     "2.718/19.4 = 0.14", "e/(e+e^0.5+e^2) ≈ 0.14", "1/7 = 0.1428 ≈ 0.14", "approx. 0.14",
     "ungefähr 0,14", "**0.14**", "$1/7 \\approx$ 0.14".replace("\\approx", "≈")],
)  # fmt: skip
def test_the_result_is_read_whatever_stands_before_it(text):
    assert read_number(text) == (pytest.approx(0.14), pytest.approx(0.01))


@pytest.mark.parametrize("text", ["?", "", "e^2/(e^2+1) = ?"])
def test_a_blank_is_a_blank(text):
    assert math.isnan(read_number(text)[0])


@pytest.mark.parametrize("text", ["e^4", "1/2 =", "see below", "about", "0.1 or 0.2"])
def test_what_has_no_result_is_no_number(text):
    with pytest.raises(InputError, match="is not a number"):
        read_number(text)
