"""A mask seen from part of its problem."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mask import cases
from regard.errors import ShapeError
from regard.mask import Causal, Documents, Extent, Padding, Prefix, Verdict, Window
from regard.mask.base import Part

often = settings(max_examples=80, deadline=None)


@st.composite
def parts(draw: st.DrawFn) -> tuple[cases.Case, Part, Extent, np.ndarray]:
    """A case, a part of it, the part's extent, and the truth about its cells."""
    case = draw(cases.cases())
    whole = case.extent
    i, j = (draw(st.integers(0, n - 1)) for n in (whole.queries, whole.keys))
    queries, keys = draw(st.integers(1, whole.queries - i)), draw(st.integers(1, whole.keys - j))
    part = Part(case.mask, i, j, whole.queries, whole.keys)
    truth = case.matrix()[..., i : i + queries, j : j + keys]
    return case, part, Extent(queries, keys, whole.batch, whole.heads), truth


@often
@given(given_part=parts())
def test_a_part_is_a_slice_of_the_whole(given_part) -> None:
    _, part, extent, truth = given_part
    np.testing.assert_array_equal(cases.answer(part, extent), truth)


@often
@given(given_part=parts())
def test_verdicts_are_promises(given_part) -> None:
    _, part, extent, truth = given_part
    for rows, cols in cases.tiles(extent):
        verdict = part.verdict(rows, cols, extent)
        inside = cases.cells(truth, rows, cols)
        assert verdict is not Verdict.NONE or not inside.any()
        assert verdict is not Verdict.ALL or inside.all()


@often
@given(given_part=parts())
def test_torch_and_single_entries_agree(given_part) -> None:
    _, part, extent, truth = given_part
    mask = part.map(torch.as_tensor)
    i, j = torch.arange(extent.queries), torch.arange(extent.keys)
    seen = mask.allows(i, j, extent).broadcast_to(extent.full)
    np.testing.assert_array_equal(seen.numpy(), truth)
    for entry in np.ndindex(*extent.batch):
        one = mask.select(entry).allows(i, j, extent)
        np.testing.assert_array_equal(one.broadcast_to(truth[entry].shape).numpy(), truth[entry])


def test_the_parts_of_a_causal_square() -> None:
    whole = cases.answer(Causal(), Extent(4, 4))
    verdicts = {}
    for i, j in product((0, 2), (0, 2)):
        part, extent = Part(Causal(), i, j, 4, 4), Extent(2, 2)
        np.testing.assert_array_equal(cases.answer(part, extent), whole[..., i : i + 2, j : j + 2])
        verdicts[i, j] = part.verdict(range(2), range(2), extent)
    assert verdicts == {
        (0, 0): Verdict.SOME, (0, 2): Verdict.NONE, (2, 0): Verdict.ALL, (2, 2): Verdict.SOME,
    }  # fmt: skip


def test_an_empty_tile_of_a_part() -> None:
    part = Part(Window(3), 1, 1, 4, 4)
    assert part.verdict(range(0), range(2), Extent(2, 2)) is Verdict.NONE
    assert part.verdict(range(2), range(2, 2), Extent(2, 2)) is Verdict.NONE


def test_the_arrays_speak_of_the_whole_problem() -> None:
    part = Part(Padding([3, 5]) & Documents([0, 0, 1, 1]), 2, 0, 4, 4)
    assert [array.tolist() for array in part.arrays()] == [[3, 5], [0, 0, 1, 1], [0, 0, 1, 1]]
    part.check(Extent(2, 3, (2,)))


@pytest.mark.parametrize("mask", [Documents([0, 1]), Padding([1, 1, 1]), Prefix([1, 2, 3])])
def test_arrays_that_do_not_fit_the_whole(mask) -> None:
    with pytest.raises(ShapeError):
        Part(mask, 0, 0, 4, 4).check(Extent(2, 2, (2,)))
