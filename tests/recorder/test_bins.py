"""Pieces come out as they went in, however they were cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.recorder.bins import Gathered, Overlay, Profile, binned, grown


@given(
    cuts=st.lists(st.integers(1, 9), max_size=12),
    size=st.sampled_from([1, 2, 4, 8]),
    how=st.sampled_from(["sum", "max", "min", "every"]),
)
def test_cuts_do_not_matter(cuts: list[int], size: int, how: str) -> None:
    total = sum(cuts)
    numbers = np.random.default_rng(0).random((3, total, 2)).astype(np.float32)
    held, parts, start = Gathered(size, how), [], 0
    for cut in cuts:
        held.put(numbers[:, start : start + cut])
        start += cut
        piece = held.take()
        parts += [] if piece is None else [piece]
    last = held.take(last=True)
    parts += [] if last is None else [last]
    assert held.held == 0 and held.taken == total
    assert [p[0] for p in parts] == sorted(p[0] for p in parts)
    assert all(first % size == 0 for first, _ in parts)
    if total:
        found = np.concatenate([p[1] for p in parts], axis=1)
        np.testing.assert_allclose(found, binned(numbers, size, how), rtol=1e-6)


def test_bins() -> None:
    row = np.array([[1.0, 3, 5, 7, 20]], np.float32)
    assert binned(row, 2, "min").tolist() == [[1, 5, 20]]
    assert binned(row, 2, "max").tolist() == [[3, 7, 20]]
    assert binned(row, 2, "sum").tolist() == [[4, 12, 20]]
    assert binned(row, 2, "every").tolist() == [[1, 5, 20]]
    assert binned(row, 1, "sum") is row


@given(count=st.integers(0, 40), size=st.sampled_from([2, 4, 16]))
def test_bins_against_their_definition(count: int, size: int) -> None:
    rows = np.random.default_rng(0).random((2, count, 3)).astype(np.float32)
    cuts = [rows[:, at : at + size] for at in range(0, count, size)]
    for how, one in (("min", np.min), ("max", np.max), ("sum", np.sum)):
        found = binned(rows, size, how)
        assert found.dtype == np.float32 and found.shape == (2, len(cuts), 3)
        for at, cut in enumerate(cuts):
            np.testing.assert_allclose(found[:, at], one(cut, axis=1), rtol=1e-6)


def test_what_is_left_out_is_not_held() -> None:
    rows = np.zeros((2, 64), np.float32)
    assert not np.shares_memory(binned(rows, 4, "every"), rows)


def test_made_bins_and_rows_behind_them() -> None:
    held = Gathered(4, "sum")
    held.put(np.full((1, 3), 5.0), np.array([[1.0, 2.0]]))
    assert held.held == 11
    first = held.take()
    assert first is not None and first[0] == 0 and first[1].tolist() == [[1, 2]]
    assert held.take() is None and held.held == 3
    with pytest.raises(ValueError, match="behind 3 tokens"):
        held.put(bins=np.ones((1, 1)))
    held.put(np.full((1, 1), 9.0))
    held.put(bins=None)
    last = held.take(last=True)
    assert last is not None and last[0] == 8 and last[1].tolist() == [[24]]
    assert (held.held, held.taken) == (0, 12)


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (4, 5)])
def test_growing_keeps_what_is_there(shape: tuple[int, int]) -> None:
    before = np.ones((2, 3))
    after = grown(before, *shape)
    assert after.shape == shape and after.sum() == 6


@given(
    pages=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
        max_size=6,
    ),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_pages_over_each_other_are_summed_where_they_lie(
    pages: list[tuple[int, int, int, int]], dtype: type[np.floating]
) -> None:
    dice, over = np.random.default_rng(0), Overlay(2, 0, 0, dtype=dtype)
    truth, given = np.zeros((2, 20, 20), dtype), []
    for down, across, tall, wide in pages:
        page = dice.random((2, tall, wide)).astype(np.float32)
        given.append((page, page.copy()))
        over.add(page, down, across)
        truth[:, down : down + tall, across : across + wide] += page
    for page, before in given:
        np.testing.assert_array_equal(page, before)  # who gave it may need it
    reached = [max([p[n] + p[n + 2] for p in pages], default=0) for n in (0, 1)]
    found = over.total()
    assert found.dtype == dtype and found.shape == (2, *reached)
    np.testing.assert_array_equal(found, truth[:, : reached[0], : reached[1]])
    np.testing.assert_array_equal(over.total(2, 20, 20), truth)


def test_a_page_alone_is_not_copied() -> None:
    page, over = np.ones((2, 3, 4), np.float32), Overlay(2, 0, 0, dtype=np.float32)
    over.add(page, 0, 0)
    assert over.total() is page or np.shares_memory(over.total(), page)


def test_rows_that_come_one_by_one_are_seldom_moved() -> None:
    over, places = Overlay(2, 0), set()
    for n in range(1, 500):
        over.add(np.ones((2, n), np.float32), 0)
        places.add(over.total().ctypes.data)
    np.testing.assert_array_equal(over.total()[0], np.arange(499, 0, -1))
    assert len(places) < 50


# ── mass by distance, exact near by and in bins far away ───────────────────────────────────────


def diagonals(weights: np.ndarray) -> np.ndarray:
    """(H, L + S − 1), in the order of j − i."""
    _, queries, keys = weights.shape
    range_of = range(-(queries - 1), keys)
    return np.stack([np.trace(weights, offset=d, axis1=1, axis2=2) for d in range_of], axis=1)


@given(
    queries=st.integers(1, 40),
    keys=st.integers(1, 40),
    row_start=st.integers(0, 30),
    bins=st.sampled_from([0, 4]),
)
def test_every_distance_is_counted_once(queries: int, keys: int, row_start: int, bins: int) -> None:
    weights = np.random.default_rng(0).random((2, queries, keys))
    profile = Profile(2, bins)
    profile.add(diagonals(weights), row_start + queries - 1)
    sums, edges = profile.finish()
    assert sums.shape == (2, len(edges) - 1)
    assert (np.diff(edges) > 0).all()
    i, j = np.meshgrid(np.arange(queries) + row_start, np.arange(keys), indexing="ij")
    for b, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = ((i - j) >= low) & ((i - j) < high)
        np.testing.assert_allclose(sums[:, b], weights[:, inside].sum(-1), rtol=1e-5)
    np.testing.assert_allclose(sums.sum(1), weights.sum((1, 2)), rtol=1e-5)


def test_far_bins_grow_and_near_ones_do_not() -> None:
    profile = Profile(1, 8)
    profile.add(np.ones((1, 5000)), 4999)
    sums, edges = profile.finish()
    widths = np.diff(edges)
    near = (edges[:-1] >= 0) & (edges[:-1] < 64)
    assert (widths[near] == 1).all() and widths[-1] > 100
    assert sums.sum() == pytest.approx(5000)
    assert sums.shape[1] < 200
