"""Vectors that fit their line."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.learn.document import LINE_WIDTH, Span, line_width
from regard.learn.vectors import vector, vector_line


def test_a_short_vector_is_whole():
    assert vector([1, 0, 1, 0], "q") == Span("[1 0 1 0]", "q")
    assert vector_line("q = ", [1, 0], "q", "  (so)") == (
        Span("q = "),
        Span("[1 0]", "q"),
        Span("  (so)"),
    )


def test_the_middle_gives_way_step_by_step():
    numbers = np.arange(8) / 7
    assert vector(numbers).text.count(" ") == 7
    assert vector(numbers, room=50).text == "[0.0000 0.1429 0.2857 0.4286 … 1.0000]"
    assert vector(numbers, room=30).text == "[0.0000 0.1429 … 1.0000]"
    assert vector(numbers, room=1).text == "[0.0000 … 1.0000]"


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40),
    st.text(alphabet="abc =", max_size=25),
)
def test_a_line_keeps_its_width(values, start):
    assert line_width(vector_line(start, values, "x", "   (w_k = w_q)")) <= LINE_WIDTH
