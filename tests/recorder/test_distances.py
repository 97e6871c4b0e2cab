"""Mass by distance, exact near by and in bins far away."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.recorder.bins import Profile


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
