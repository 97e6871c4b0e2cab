"""The neutral document: lines that break where sums may break."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.learn.document import (
    LINE_WIDTH,
    Document,
    Span,
    flow,
    line,
    line_width,
    total,
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


def test_the_formula_says_whether_scores_are_divided():
    assert Document("t", (), ()).formula == "Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V"
    assert "√" not in Document("t", (), (), scaled=False).formula
