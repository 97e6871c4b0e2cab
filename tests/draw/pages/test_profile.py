"""Profiles of distance, entropy and mass: kept, computed, or not known."""

from __future__ import annotations

import numpy as np
import pytest

from regard.draw.pages.profile import Bins, _widening, distances, entropies, received
from regard.testing.recordings import Chunk, in_memory

N = 40


def heads(**options):
    """An exact head, one of which only summaries were kept, and the truth of both."""
    tokens = [f" t{n}" for n in range(N)]
    rec, truths = in_memory(tokens, layers=2, **options)
    weights = [truths[0, layer].truth.weights()[2] for layer in (0, 1)]
    return rec["L0H2"], rec["L1H2"], *weights


def test_distances_are_shares_of_all_attention():
    for head, truth in zip(heads()[:2], heads()[2:], strict=True):
        bins = distances(head)
        assert bins.values.sum() == pytest.approx(1, abs=1e-4)
        at = bins.edges.tolist().index(1)
        assert bins.edges[at + 1] == 2
        assert bins.values[at] == pytest.approx(np.trace(truth, -1) / N, rel=1e-4)


def test_distances_that_do_not_occur_are_left_out():
    bins = distances(heads()[0])
    assert bins.values.size <= 48 and (bins.edges[0], bins.edges[-1]) == (0, N)


def test_long_profiles_widen():
    bins = _widening(np.arange(1001), np.ones(1000))
    widths = np.diff(bins.edges)
    assert bins.values.size <= 48 and bins.values.sum() == 1000
    assert (widths[:4] == 1).all() and (np.diff(widths[:-1]) >= -1).all() and widths.max() > 100
    both = _widening(np.arange(-500, 501), np.ones(1000))
    np.testing.assert_array_equal(both.values, np.diff(both.edges))
    near = np.diff(both.edges)[np.abs(both.edges[:-1]) < 3]
    assert (near == 1).all() and both.values.size <= 48


def test_both_directions_are_told_apart():
    rec, truths = in_memory(["x"] * N, layers=1, chunks=[Chunk((0, N), (0, N))])
    truth = truths[0, 0].truth.weights()[0]
    bins = distances(rec["L0H0"])
    assert bins.edges[0] == 1 - N and bins.edges[-1] == N
    for distance in (-1, 0, 1):
        at = bins.edges.tolist().index(distance)
        assert bins.values[at] == pytest.approx(np.trace(truth, -distance) / N, rel=1e-4)
    assert bins.values.sum() == pytest.approx(1, abs=1e-4)


def test_computed_where_nothing_was_kept():
    exact, _, truth, _ = heads(statistics=False)
    assert distances(exact).values.sum() == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(received(exact).values, truth.sum(0) / N, rtol=1e-4)
    entropy = -(truth * np.log(np.where(truth > 0, truth, 1))).sum(1)
    np.testing.assert_allclose(entropies(exact).values, entropy, rtol=1e-3, atol=1e-5)


def test_not_known_where_neither():
    _, kept, *_ = heads(statistics=False)
    assert (distances(kept), entropies(kept), received(kept)) == (None, None, None)


def test_bins_as_they_were_kept():
    _, kept, _, truth = heads(row_bin=8, key_bin=8)
    assert entropies(kept).values.size == 5 and entropies(kept).span(1) == "8–15"
    mass = received(kept)
    np.testing.assert_allclose(mass.values, truth.sum(0).reshape(5, 8).sum(1) / N, rtol=1e-4)


def test_spans_in_words_and_json():
    bins = Bins(np.array([0, 1, 4]), np.array([0.5, np.nan]))
    assert (bins.span(0), bins.span(1), bins.span(1, "-")) == ("0", "1–3", "1-3")
    assert bins.as_dict() == {"edges": [0, 1, 4], "values": [0.5, None]}
