"""Curves with fewer points, and packed."""

from __future__ import annotations

import numpy as np

from regard.viewer.carried_tracks import STEPS, pack_tracks
from regard.viewer.packing import Packed
from regard.views.profiles import Track


def _track(count: int) -> Track:
    values = np.random.default_rng(1).random(count)
    return Track.of("words", np.arange(count + 1), values)


def test_fewer_points_keep_the_mean_and_the_largest():
    track = _track(1000)
    found = track.coarser(100)
    assert found.mean.size == 100
    np.testing.assert_allclose(found.mean[:3], track.mean[:30].reshape(3, 10).mean(1))
    np.testing.assert_allclose(found.largest[:3], track.mean[:30].reshape(3, 10).max(1))
    assert (found.edges[0], found.edges[-1]) == (0, 1000)


def test_few_points_stay_as_they_are():
    track = _track(64)
    assert track.coarser(64) is track


def test_the_largest_is_packed_only_where_it_differs():
    packed = Packed()
    told = pack_tracks(packed, {"a": _track(64), "b": _track(640).coarser(64), "c": None},
                       exact=False)  # fmt: skip
    assert [one["name"] for one in packed.parts] == ["a/mean", "b/mean", "b/largest"]
    assert told["a"] == {"words": "words", "span": [0, 64], "edges": None}
    assert told["b"]["edges"][:3] == [0, 10, 20]
    assert told["c"] is None
    assert packed.parts[0]["step"] * STEPS == _track(64).mean.max()


def test_an_exact_curve_keeps_its_digits():
    packed = Packed()
    pack_tracks(packed, {"a": _track(8)}, exact=True)
    assert packed.parts == [{"name": "a/mean", "form": "exact", "count": 8}]
