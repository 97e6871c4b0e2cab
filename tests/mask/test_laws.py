"""What holds for every mask: kinds, alignments, lengths, batches and combinations at random."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mask import cases
from regard.mask import Verdict

KINDS = [
    cases.causal,
    cases.window,
    cases.prefix,
    cases.padding,
    cases.documents,
    cases.packed,
    cases.rule,
    cases.table,
    cases.composed,
]
# Enough to find every planted fault in seconds; no deadline, because machines differ.
often = settings(max_examples=60, deadline=None)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@each_kind
@often
@given(data=st.data())
def test_allows_is_the_definition(kind, data):
    case = data.draw(cases.cases(kind))
    np.testing.assert_array_equal(cases.answer(case.mask, case.extent), case.matrix())


@each_kind
@often
@given(data=st.data())
def test_any_index_vectors_may_be_asked(kind, data):
    case = data.draw(cases.cases(kind))
    i, j = (
        np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6)))
        for n in (case.extent.queries, case.extent.keys)
    )
    seen = np.broadcast_to(
        case.mask.allows(i, j, case.extent), (*case.extent.full[:-2], len(i), len(j))
    )
    np.testing.assert_array_equal(seen, case.matrix()[..., i[:, None], j[None, :]])


@each_kind
@often
@given(data=st.data())
def test_torch_agrees_with_numpy(kind, data):
    case = data.draw(cases.cases(kind))
    mask = case.mask.map(torch.as_tensor)
    i, j = torch.arange(case.extent.queries), torch.arange(case.extent.keys)
    seen = mask.allows(i, j, case.extent)
    assert isinstance(seen, torch.Tensor) and seen.dtype == torch.bool
    np.testing.assert_array_equal(
        seen.expand(case.extent.full).numpy(), cases.answer(case.mask, case.extent)
    )
    for rows, cols in cases.tiles(case.extent)[:4]:
        assert mask.verdict(rows, cols, case.extent) is case.mask.verdict(rows, cols, case.extent)


@each_kind
@often
@given(data=st.data())
def test_a_verdict_is_never_wrong(kind, data):
    case = data.draw(cases.cases(kind))
    full = case.matrix()
    for rows, cols in cases.tiles(case.extent):
        tile = cases.cells(full, rows, cols)
        verdict = case.mask.verdict(rows, cols, case.extent)
        if verdict is Verdict.NONE:
            assert not tile.any(), (case.mask, rows, cols)
        if verdict is Verdict.ALL:
            assert tile.all(), (case.mask, rows, cols)


@pytest.mark.parametrize("kind", [cases.causal, cases.window, cases.prefix, cases.table])
@often
@given(data=st.data())
def test_a_verdict_on_positions_is_sharp(kind, data):
    """SOME is said only of tiles that are mixed."""
    case = data.draw(cases.cases(kind))
    _expect_sharp(case)
    _expect_sharp(cases.Case(~case.mask, case.extent, lambda *cell: not case.truth(*cell)))


@often
@given(data=st.data())
def test_a_verdict_on_padded_keys_is_sharp(data):
    case = data.draw(cases.cases(cases.padding).filter(lambda case: case.mask.queries is None))
    _expect_sharp(case)


def _expect_sharp(case: cases.Case) -> None:
    full = case.matrix()
    for rows, cols in cases.tiles(case.extent):
        tile = cases.cells(full, rows, cols)
        exact = Verdict.ALL if tile.all() else Verdict.SOME if tile.any() else Verdict.NONE
        assert case.mask.verdict(rows, cols, case.extent) is exact, (case.mask, rows, cols)


@each_kind
@often
@given(data=st.data())
def test_nobody_sees_anything_in_an_empty_tile(kind, data):
    case = data.draw(cases.cases(kind))
    whole_rows, whole_cols = range(case.extent.queries), range(case.extent.keys)
    for rows, cols in ((range(0), whole_cols), (whole_rows, range(1, 1)), (range(0), range(0))):
        assert case.mask.verdict(rows, cols, case.extent) is Verdict.NONE
        assert (~case.mask).verdict(rows, cols, case.extent) is Verdict.NONE


@each_kind
@often
@given(data=st.data())
def test_select_is_indexing(kind, data):
    case = data.draw(cases.cases(kind))
    full = cases.answer(case.mask, case.extent)
    i, j = np.arange(case.extent.queries), np.arange(case.extent.keys)
    for entry in np.ndindex(*case.extent.batch):
        seen = case.mask.select(entry).allows(i, j, case.extent)
        np.testing.assert_array_equal(np.broadcast_to(seen, full[entry].shape), full[entry])


@each_kind
@often
@given(data=st.data())
def test_map_touches_each_array_once_in_order(kind, data):
    case = data.draw(cases.cases(kind))
    touched = []

    def note(array):
        touched.append(array)
        return array.copy()

    copy = case.mask.map(note)
    held = list(case.mask.arrays())
    assert len(touched) == len(held)
    assert all(a is b for a, b in zip(touched, held, strict=True))
    np.testing.assert_array_equal(
        cases.answer(copy, case.extent), cases.answer(case.mask, case.extent)
    )


@each_kind
@often
@given(data=st.data())
def test_every_mask_fits_its_own_problem_and_has_a_short_name(kind, data):
    case = data.draw(cases.cases(kind))
    case.mask.check(case.extent)
    assert "array(" not in repr(case.mask)


@often
@given(st.data())
def test_de_morgan(data):
    extent = data.draw(cases.extents())
    a, b = data.draw(cases.composed(extent, 1)).mask, data.draw(cases.composed(extent, 1)).mask
    np.testing.assert_array_equal(cases.answer(~(a & b), extent), cases.answer(~a | ~b, extent))
    np.testing.assert_array_equal(cases.answer(~~a, extent), cases.answer(a, extent))
