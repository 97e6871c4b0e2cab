"""Lines that break where sums may break, and vectors that fit their line."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.learn.languages import language
from regard.learn.story.document import Span
from regard.learn.story.lines import (
    LINE_WIDTH,
    flow,
    line,
    line_width,
    product_lines,
    products,
    total,
    vector,
    vector_line,
)


def text(lines) -> list[str]:
    return ["".join(span.text for span in one) for one in lines]


def test_strings_become_plain_spans():
    assert line("a", Span("b", "q")) == (Span("a", "plain"), Span("b", "q"))
    assert line_width(line("a語", Span("b", "q"))) == 4


def test_a_short_sum_is_one_line():
    assert text(total(line("q1 = "), [line("1×1"), line("0×2")], line(" = 1"))) == [
        "q1 = 1×1 + 0×2 = 1"
    ]


def test_a_long_sum_breaks_before_a_plus():
    lines = text(total(line("q1 = "), [line("0.1234×(-0.1234)")] * 8, line(" = 1")))
    assert len(lines) > 1
    assert lines[0].startswith("q1 = 0.1234")
    assert all(one.startswith("     + ") for one in lines[1:])
    assert " ".join(lines).count("×") == 8


def test_a_result_that_does_not_fit_stands_under_the_equals_sign():
    term = line("x" * (LINE_WIDTH - 6))
    assert text(total(line("q1 = "), [term], line(" = 1")))[1] == "   = 1"


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(3, 20))
def test_sums_keep_their_terms_and_their_width(widths, head):
    terms = [line("x" * n) for n in widths]
    lines = text(total(line("h" * head), terms, line(" = 1")))
    assert max(map(len, lines)) <= LINE_WIDTH
    assert "".join(lines).count("x") == sum(widths)
    assert "".join(lines).count("+") == len(widths) - 1


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 6))
def test_flowing_items_keep_their_order_and_their_width(widths, gap):
    items = [line(chr(97 + n % 26) * width) for n, width in enumerate(widths)]
    lines = text(flow(items, gap))
    assert " ".join(lines).split() == text(items)
    assert all(len(one) <= LINE_WIDTH for one in lines)


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
    assert vector(numbers[:4], room=30).text == "[0.0000 0.1429 0.2857 0.4286]"
    assert vector(numbers[:4], room=20).text == "[0.0000 … 0.4286]"
    assert vector(numbers[:3], room=20).text == "[0.0000 … 0.2857]"
    assert vector(numbers[:2], room=1).text == "[0.0000 0.1429]"


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40),
    st.text(alphabet="abc =", max_size=25),
)
def test_a_line_keeps_its_width(values, start):
    assert line_width(vector_line(start, values, "x", "   (w_k = w_q)")) <= LINE_WIDTH


def test_products_carry_their_roles_and_bracket_what_is_negative():
    assert products(["1", "-2"], ["0", "3"], ("q", "k")) == [
        (Span("1", "q"), Span("×"), Span("0", "k")),
        (Span("(-2)", "q"), Span("×"), Span("3", "k")),
    ]
    many = text(products(["1"] * 12, ["2"] * 12, ("q", "k")))
    assert many == ["1×2"] * 5 + ["…", "1×2"]


def test_a_projection_is_spelt_out_dimension_by_dimension():
    x, w = np.array([1.0, 2.0]), np.array([[1.0, 0.0], [-3.0, 1.0]])
    assert text(product_lines(language("en"), ("q", "q"), x, w, x @ w)) == [
        "  q1 = 1×1 + 2×(-3) = -5",
        "  q2 = 1×0 + 2×1 = 2",
    ]
    wide = text(product_lines(language("en"), ("q", "q"), x, np.ones((2, 9)), np.full(9, 3.0)))
    assert wide[-1] == "  … 5 more in the same way"
