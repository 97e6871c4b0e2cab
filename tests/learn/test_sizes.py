"""What widths follow from what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.learn.sizes import Sizes, settle


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ({}, Sizes(4, 1, 4, 4)),
        ({"heads": 2}, Sizes(4, 2, 2, 2)),
        ({"heads": 4}, Sizes(4, 4, 1, 1)),
        ({"d_k": 2}, Sizes(4, 1, 2, 4)),
        ({"d_v": 6}, Sizes(4, 1, 4, 6)),
        ({"heads": 2, "d_k": 3}, Sizes(4, 2, 3, 2)),
        ({"heads": 3, "d_k": 2}, Sizes(4, 3, 2, 2)),
        ({"heads": 3, "d_k": 2, "d_v": 5}, Sizes(4, 3, 2, 5)),
    ],
)
def test_what_is_not_asked_for_follows(asked, sizes):
    assert settle(4, **asked) == sizes


def test_a_width_that_does_not_divide_says_what_does():
    with pytest.raises(
        ShapeError, match="width of 6 does not divide into 4 heads; give 1, 2, 3, 6"
    ):
        settle(6, heads=4)


@pytest.mark.parametrize("name", ["heads", "d_k", "d_v"])
@pytest.mark.parametrize("value", [0, -1, 100_000])
def test_counts_have_limits(name, value):
    with pytest.raises(
        InputError, match=f"--{name.replace('_', '-')} {value}: give a whole number"
    ):
        settle(4, **{name: value})


@given(st.integers(1, 64), st.integers(1, 64))
def test_heads_share_the_width_or_are_refused(width, heads):
    if width % heads:
        with pytest.raises(ShapeError):
            settle(width, heads=heads)
    else:
        assert settle(width, heads=heads).concat == width
