"""Masks as intervals: intervals and rest together are the mask, and most masks have no rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from mask import cases
from regard.mask import (
    Causal,
    Documents,
    Extent,
    Mask,
    Padding,
    Prefix,
    Rule,
    Table,
    Window,
)
from regard.mask.base import Part
from regard.mask.spans import Spans, spans_of

often = settings(max_examples=150, deadline=None)


def together(mask: Mask | None, extent: Extent) -> np.ndarray:
    """What intervals and rest both allow, on every cell."""
    spans, rest = spans_of(mask, extent)
    allowed = np.ones(extent.full, bool)
    if spans is not None:
        allowed &= inside(spans, extent)
    if rest is not None:
        allowed &= cases.answer(rest, extent)
    return allowed


def inside(spans: Spans, extent: Extent) -> np.ndarray:
    rows = (*extent.batch, extent.queries)
    low, high = (np.broadcast_to(side, rows)[..., None, :, None] for side in spans)
    j = np.arange(extent.keys)
    return np.broadcast_to((low <= j) & (j < high), extent.full)


def is_intervals(mask: Mask, extent: Extent) -> bool:
    """Whether nothing is left besides the intervals; they must be right too."""
    np.testing.assert_array_equal(together(mask, extent), cases.answer(mask, extent))
    spans, rest = spans_of(mask, extent)
    return spans is not None and rest is None


@often
@given(data=st.data())
def test_any_composition_is_its_intervals_and_its_rest(data: st.DataObject) -> None:
    case = data.draw(cases.cases())
    np.testing.assert_array_equal(together(case.mask, case.extent), case.matrix())


@often
@given(data=st.data())
def test_any_part_of_any_composition(data: st.DataObject) -> None:
    case = data.draw(cases.cases())
    part, extent, at = data.draw(parts(case))
    np.testing.assert_array_equal(together(part, extent), case.matrix()[at])


@st.composite
def parts(draw: st.DrawFn, case: cases.Case) -> tuple[Part, Extent, tuple]:
    """A part of the problem, its extent, and where it lies in the whole."""
    whole = case.extent
    i, j = (draw(st.integers(0, n - 1)) for n in (whole.queries, whole.keys))
    queries, keys = draw(st.integers(1, whole.queries - i)), draw(st.integers(1, whole.keys - j))
    part = Part(case.mask, i, j, whole.queries, whole.keys)
    at = (..., slice(i, i + queries), slice(j, j + keys))
    return part, Extent(queries, keys, whole.batch, whole.heads), at


# ── which masks are intervals altogether ─────────────────────────────────────────────────────

LEFT = np.array([[False, False, True, True, True], [True] * 5])
RIGHT = np.array([[True, True, False, False, False], [True] * 5])
SCATTERED = np.array([[True, False, True, True, False], [True] * 5])


@pytest.mark.parametrize("queries", [3, 5, 8])
@pytest.mark.parametrize(
    "mask",
    [
        Causal(),
        Causal("start"),
        Window(2),
        Window(1, 2, "start"),
        Window(None, 1),
        Window(0, None),
        Window(None, None),
        Prefix(2),
        Prefix([0, 4]),
        Padding([5, 2]),
        Padding([0, 5]),
        Padding(LEFT),
        Padding(RIGHT),
        Padding(np.zeros((2, 5), bool)),
        Causal() & Window(3) & Padding(LEFT),
        Causal() | Prefix(3),  # a prefix language model
        Causal() | Prefix([1, 4]),
        (Causal() | Prefix(3)) & Padding([5, 4]),
        Window(1) | Window(0, 1),
    ],
    ids=repr,
)
def test_intervals(mask: Mask, queries: int) -> None:
    assert is_intervals(mask, Extent(queries, 5, (2,), 2))


@pytest.mark.parametrize(
    "mask",
    [
        Padding(SCATTERED),
        Rule(lambda i, j: (i + j) % 2 == 0),
        Table(np.eye(5, dtype=bool)),
        ~Window(1, 1),
        ~Causal(),
        Window(0) | Prefix(1),  # a gap between the two
        Causal() | Padding(SCATTERED),
    ],
    ids=repr,
)
def test_no_intervals_leave_the_mask_as_it_is(mask: Mask) -> None:
    extent = Extent(5, 5, (2,), 1)
    assert spans_of(mask, extent) == (None, mask)


def test_no_mask_is_neither() -> None:
    assert spans_of(None, Extent(3, 3)) == (None, None)


def test_an_intersection_keeps_what_is_left_of_each_side() -> None:
    odd = Rule(lambda i, j: j % 2 == 1)
    even = Rule(lambda i, j: i % 2 == 0)
    extent = Extent(4, 4)
    spans, rest = spans_of(Causal() & odd, extent)
    assert rest is odd and spans is not None and spans.high.tolist() == [1, 2, 3, 4]
    spans, rest = spans_of((Causal() & odd) & (even & Window(1)), extent)
    assert rest == odd & even and spans is not None and spans.low.tolist() == [0, 0, 1, 2]


def test_padding_of_queries_empties_their_rows() -> None:
    for queries in ([2, 0], np.array([[True, False, True]] * 2)):
        assert is_intervals(Padding([4, 3], queries), Extent(3, 4, (2,)))


# ── documents ────────────────────────────────────────────────────────────────────────────────


def test_documents_that_stand_together_are_intervals() -> None:
    assert is_intervals(Documents([0, 0, 1, 1, 1, 7]), Extent(6, 6))
    assert is_intervals(Causal() & Documents([[0, 0, 1], [5, 5, 5]]), Extent(3, 3, (2,)))
    # ids need not ascend, and queries may come in any order
    assert is_intervals(Documents([1, 9, 9, 4], [9, 9, 4, 1, 1]), Extent(4, 5))


def test_a_document_without_keys_sees_nothing() -> None:
    extent = Extent(3, 2)
    assert is_intervals(Documents([3, -1, 9], [3, 3]), extent)
    assert together(Documents([3, -1, 9], [3, 3]), extent)[0].tolist() == [
        [True, True], [False, False], [False, False],
    ]  # fmt: skip
    assert is_intervals(Documents([1, 2], np.zeros(0, int)), Extent(2, 0))


def test_a_scattered_document_is_no_interval() -> None:
    scattered = Documents([0, 1, 0])
    assert spans_of(scattered, Extent(3, 3)) == (None, scattered)
    one_of_two = Documents([[0, 0, 1], [0, 1, 0]])
    assert spans_of(one_of_two, Extent(3, 3, (2,))) == (None, one_of_two)


# ── as the kernels use them ──────────────────────────────────────────────────────────────────


def test_tensors_inside_a_mask() -> None:
    mask = (Causal() & Padding([3, 5])).map(torch.as_tensor)
    spans, rest = spans_of(mask, Extent(5, 5, (2,)))
    assert rest is None and spans is not None
    assert spans.high.tolist() == [[1, 2, 3, 3, 3], [1, 2, 3, 4, 5]]


def test_a_part_of_a_prefix_reaches_the_kernels() -> None:
    x = torch.randn(1, 2, 6, 4, generator=torch.Generator().manual_seed(0))
    whole = regard.attend(x, x, x, mask=Prefix(3), implementation="cpu")
    part = regard.attend_partial(
        x[:, :, 2:], x, x, mask=Prefix(3), query_start=2, implementation="cpu"
    )
    torch.testing.assert_close(part.lse, whole.lse[..., 2:])
