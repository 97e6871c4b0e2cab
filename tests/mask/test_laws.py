"""What holds for every mask: kinds, alignments, lengths, batches and combinations at random."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mask import cases
from regard.mask import Extent, Mask, Verdict

KINDS = (
    cases.causal, cases.window, cases.prefix, cases.padding, cases.documents, cases.packed,
    cases.rule, cases.table, cases.composed,
)  # fmt: skip
# of these, SOME is answered for mixed tiles alone
SHARP = (cases.causal, cases.window, cases.prefix, cases.table)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_mask_is_its_definition_in_whole_and_in_part(kind, data):
    case = data.draw(cases.cases(kind))
    mask, extent, full = case.mask, case.extent, case.matrix()
    mask.check(extent)
    assert "array(" not in repr(mask)
    is_sharp = kind in SHARP or (kind is cases.padding and mask.queries is None)
    _expect(mask, extent, full, is_sharp)
    _expect(~mask, extent, ~full, is_sharp and kind is not cases.padding)
    part = _part(data, case)
    _expect(*part)
    _expect_some_indices(data, mask, extent, full)
    _expect_entries(data, mask, extent, full)
    _expect_entries(data, *part)
    _expect_arrays(mask, extent)


def _expect(mask: Mask, extent: Extent, full: np.ndarray, is_sharp: bool = False) -> None:
    """Cells, in numpy and torch; verdicts on every tile; intervals and the rest together."""
    np.testing.assert_array_equal(cases.answer(mask, extent), full)
    tensors = mask.map(torch.as_tensor)
    seen = tensors.allows(torch.arange(extent.queries), torch.arange(extent.keys), extent)
    assert seen.dtype == torch.bool
    np.testing.assert_array_equal(seen.expand(extent.full).numpy(), full)
    np.testing.assert_array_equal(cases.together(mask, extent), full)
    np.testing.assert_array_equal(cases.together(tensors, extent), full)

    rows, cols = range(extent.queries), range(extent.keys)
    for nothing in ((range(0), cols), (rows, range(1, 1))):
        assert mask.verdict(*nothing, extent) is Verdict.NONE
    for number, (rows, cols) in enumerate(cases.tiles(extent)):
        tile = cases.cells(full, rows, cols)
        verdict = mask.verdict(rows, cols, extent)
        exact = Verdict.ALL if tile.all() else Verdict.SOME if tile.any() else Verdict.NONE
        assert verdict is exact or (verdict is Verdict.SOME and not is_sharp), (mask, rows, cols)
        assert number > 4 or tensors.verdict(rows, cols, extent) is verdict


def _part(data, case: cases.Case) -> tuple[Mask, Extent, np.ndarray]:
    """The mask seen from some queries and keys, perhaps from some of these."""
    mask, extent, full = case.mask, case.extent, case.matrix()
    for _ in range(data.draw(st.integers(1, 2))):
        i, j = (data.draw(st.integers(0, n - 1)) for n in (extent.queries, extent.keys))
        queries = data.draw(st.integers(1, extent.queries - i))
        keys = data.draw(st.integers(1, extent.keys - j))
        mask = mask.seen_from(i, j, extent.queries, extent.keys)
        extent = Extent(queries, keys, extent.batch, extent.heads)
        full = full[..., i : i + queries, j : j + keys]
    mask.check(extent)
    return mask, extent, full


def _expect_some_indices(data, mask: Mask, extent: Extent, full: np.ndarray) -> None:
    i, j = (
        np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6)))
        for n in (extent.queries, extent.keys)
    )
    seen = np.broadcast_to(mask.allows(i, j, extent), (*extent.full[:-2], len(i), len(j)))
    np.testing.assert_array_equal(seen, full[..., i[:, None], j[None, :]])


def _expect_entries(data, mask: Mask, extent: Extent, full: np.ndarray) -> None:
    """One batch entry, and some entries and heads."""
    i, j = np.arange(extent.queries), np.arange(extent.keys)
    for entry in np.ndindex(*extent.batch):
        seen = mask.select(entry).allows(i, j, extent)
        np.testing.assert_array_equal(np.broadcast_to(seen, full[entry].shape), full[entry])
    spans = []
    for n in (*extent.batch, extent.heads):
        start = data.draw(st.integers(0, n - 1))
        spans.append(range(start, data.draw(st.integers(start + 1, n))))
    *batch, heads = spans
    here = Extent(extent.queries, extent.keys, tuple(map(len, batch)), len(heads))
    cut = mask.cut(extent, batch, heads)
    cut.check(here)
    kept = full[tuple(slice(span.start, span.stop) for span in spans)]
    np.testing.assert_array_equal(cases.answer(cut, here), kept)


def _expect_arrays(mask: Mask, extent: Extent) -> None:
    """Each array is mapped once, in order."""
    mapped = []

    def note(array):
        mapped.append(array)
        return array.copy()

    copy, held = mask.map(note), list(mask.arrays())
    assert len(mapped) == len(held)
    assert all(a is b for a, b in zip(mapped, held, strict=True))
    np.testing.assert_array_equal(cases.answer(copy, extent), cases.answer(mask, extent))
