"""Profiles of distance, entropy and mass: kept, computed, or not known; no spike is lost."""

from __future__ import annotations

import numpy as np
import pytest

from recording.cases import CASES
from regard.recording import Recording
from regard.views.profiles import (
    MOST_POINTS,
    Bins,
    Track,
    distances,
    entropies,
    received,
    tracks_of,
    widening,
)
from support.recordings import Chunk, in_memory, write_recording


def test_few_points_stay_as_they_are():
    one = Track.of("w", np.arange(5), np.array([1.0, 2, 3, 4]))
    assert one.as_answer() == {
        "words": "w", "edges": [0, 1, 2, 3, 4], "mean": [1, 2, 3, 4], "largest": [1, 2, 3, 4],
    }  # fmt: skip


@pytest.mark.parametrize("count", [MOST_POINTS, MOST_POINTS + 1, 10_000, 131_072])
def test_many_are_binned_and_keep_their_spike(count):
    values = np.ones(count)
    values[777] = 100
    one = Track.of("w", np.arange(count + 1), values)
    assert one.mean.size <= MOST_POINTS
    assert one.edges.size == one.mean.size + 1
    assert (one.edges[0], one.edges[-1]) == (0, count)
    assert one.largest.max() == 100
    assert one.mean @ np.diff(one.edges) == pytest.approx(values.sum())


def test_uneven_spans_weigh_by_their_length():
    edges = np.cumsum(np.append(0, np.tile([1, 3], MOST_POINTS)))
    values = np.tile([4.0, 0.0], MOST_POINTS)
    one = Track.of("w", edges, values)
    assert np.allclose(one.mean, 1.0)
    assert one.largest.tolist() == [4.0] * MOST_POINTS


@pytest.mark.parametrize("name", ["causal", "cross", "more queries than keys", "window both sides"])
def test_stored_and_computed_tracks_agree(name):
    case = CASES[name]
    heads = []
    for statistics in (True, False):
        store, _ = write_recording(
            chunks=case.chunks, **(case.options | {"statistics": statistics})
        )
        heads.append(Recording(store)["L0H1"])
    for stored, computed in zip(*(tracks_of(one).items() for one in heads), strict=True):
        if stored[0] == "distance" and name in ("cross", "more queries than keys"):
            continue  # the synthetic profile counts cross distances from another key
        np.testing.assert_array_equal(stored[1].edges, computed[1].edges)
        np.testing.assert_allclose(stored[1].mean, computed[1].mean, atol=1e-4)


def test_numbers_are_sent_with_the_digits_of_float32():
    values = np.array([1 / 3, 0.0, -123456.789012345, 1e-45, 1e-310, np.nan, np.inf])
    sent = Track("made", np.arange(values.size + 1), values, values).as_answer()["mean"]
    assert sent[:2] == [0.333333333, 0.0] and sent[5:] == [None, None]
    np.testing.assert_allclose(sent[:5], values[:5], rtol=1e-8)


# ── bins ─────────────────────────────────────────────────────────────────────────────────────


N = 40


def heads(**options):
    """An exact head, one of which only summaries were kept, and the truth of both."""
    tokens = [f" t{n}" for n in range(N)]
    rec, truths = in_memory(tokens, layers=2, **options)
    weights = [truths[0, layer].truth.weights()[2] for layer in (0, 1)]
    return rec["L0H2"], rec["L1H2"], *weights


def test_long_profiles_widen():
    bins = widening(Bins(np.arange(1001), np.ones(1000)))
    widths = np.diff(bins.edges)
    assert bins.values.size <= 48 and bins.values.sum() == 1000
    assert (widths[:4] == 1).all() and (np.diff(widths[:-1]) >= -1).all() and widths.max() > 100
    both = widening(Bins(np.arange(-500, 501), np.ones(1000)))
    np.testing.assert_array_equal(both.values, np.diff(both.edges))
    near = np.diff(both.edges)[np.abs(both.edges[:-1]) < 3]
    assert (near == 1).all() and both.values.size <= 48


def test_distances_are_shares_of_all_attention_in_both_directions():
    """Trimmed to those that occur."""
    both, truths = in_memory(["x"] * N, layers=1, chunks=[Chunk((0, N), (0, N))])
    exact, kept, *weights = heads()
    for head, truth, first in (
        (exact, weights[0], 0), (kept, weights[1], 0),
        (both["L0H0"], truths[0, 0].truth.weights()[0], 1 - N),
    ):  # fmt: skip
        bins = distances(head)
        assert (bins.edges[0], bins.edges[-1]) == (first, N)
        assert bins.values.sum() == pytest.approx(N, abs=1e-2)
        assert widening(bins).values.size <= 48
        for distance in (-1, 0, 1)[first == 0 :]:
            at = bins.edges.tolist().index(distance)
            assert bins.edges[at + 1] == distance + 1
            assert bins.values[at] == pytest.approx(np.trace(truth, -distance), rel=1e-4)


def test_computed_where_nothing_was_kept():
    exact, _, truth, _ = heads(statistics=False)
    assert distances(exact).values.sum() == pytest.approx(N, abs=1e-2)
    np.testing.assert_allclose(received(exact).values, truth.sum(0), rtol=1e-4)
    entropy = -(truth * np.log(np.where(truth > 0, truth, 1))).sum(1)
    np.testing.assert_allclose(entropies(exact).values, entropy, rtol=1e-3, atol=1e-5)


def test_not_known_where_neither():
    _, kept, *_ = heads(statistics=False)
    assert (distances(kept), entropies(kept), received(kept)) == (None, None, None)
    assert tracks_of(kept) == {"received": None, "distance": None, "entropy": None}


def test_bins_as_they_were_kept():
    _, kept, _, truth = heads(row_bin=8, key_bin=8)
    assert entropies(kept).values.size == 5 and entropies(kept).span(1) == "8–15"
    mass = received(kept)
    np.testing.assert_allclose(mass.values, truth.sum(0).reshape(5, 8).sum(1), rtol=1e-4)


def test_spans_in_words():
    bins = Bins(np.array([0, 1, 4]), np.array([0.5, np.nan]))
    assert (bins.span(0), bins.span(1), bins.span(1, "-")) == ("0", "1–3", "1-3")
