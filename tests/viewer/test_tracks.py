"""Tracks: few points, and no spike lost."""

from __future__ import annotations

import numpy as np
import pytest

from recording.test_head import CASES
from regard.recording import Recording
from regard.testing.recordings import in_memory, write_recording
from regard.viewer.tracks import MOST_POINTS, Track, tracks_of


def test_few_points_stay_as_they_are():
    one = Track.of("w", np.arange(5), np.array([1.0, 2, 3, 4]))
    assert one.as_dict() == {
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


def test_distance_is_trimmed_to_what_there_is():
    recording, _ = in_memory()
    one = tracks_of(recording["L0H0"])["distance"]
    assert one.edges[0] == 0
    assert one.edges[-1] == len(recording.tokens)


def test_what_is_not_known_is_none():
    store, _ = write_recording(chunks=CASES["causal"].chunks, exact=False, statistics=False)
    assert tracks_of(Recording(store)["L0H0"]) == {
        "received": None, "distance": None, "entropy": None,
    }  # fmt: skip


def test_numbers_are_sent_with_the_digits_of_float32():
    values = np.array([1 / 3, 0.0, -123456.789012345, 1e-45, 1e-310, np.nan, np.inf])
    sent = Track("made", np.arange(values.size + 1), values, values).as_dict()["mean"]
    assert sent[:2] == [0.333333333, 0.0] and sent[5:] == [None, None]
    np.testing.assert_allclose(sent[:5], values[:5], rtol=1e-8)
