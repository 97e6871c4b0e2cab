"""Two heads by what was stored of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import Recording
from regard.study.align import align
from regard.study.divergence import js_distance
from regard.study.profiles import profile_distances
from support.recordings import Chunk, write_recording

N = 120


def head(seed: int = 0, count: int = N, **options: Any) -> Any:
    chunk = Chunk((0, count), (0, count), regard.Causal())
    store, _ = write_recording(chunks=[chunk], seed=seed, exact=False, **options)
    return Recording(store)["L0H2"]


def distances(a: Any, b: Any) -> dict[str, float]:
    tokens = align(None, None, (a.shape[0], b.shape[0]))
    return dict(profile_distances((a, b), tokens, tokens))


def test_a_head_and_itself() -> None:
    assert distances(head(), head()) == {"entropy": 0, "received": 0, "offsets": 0}


def test_against_the_arrays() -> None:
    a, b = head(0), head(1)
    found = distances(a, b)
    gap = np.abs(a.stored["entropy"].values - b.stored["entropy"].values).mean()
    assert found["entropy"] == pytest.approx(gap, rel=1e-5)
    for name in ("received", "offsets"):
        p, q = (np.asarray(one.stored[name].values, np.float64) for one in (a, b))
        assert found[name] == pytest.approx(float(js_distance(p / p.sum(), q / q.sum())), rel=1e-6)


def test_bins_that_differ() -> None:
    """Mass by distance over shared edges; rows and keys in other bins are not compared."""
    found = distances(head(0), head(0, row_bin=4, key_bin=4))
    assert found == {"offsets": 0}
    same = distances(head(0, row_bin=4, key_bin=4), head(1, row_bin=4, key_bin=4))
    assert set(same) == {"entropy", "received", "offsets"}


def test_texts_of_two_lengths() -> None:
    found = distances(head(0), head(0, count=80))
    assert 0 < found["offsets"] < 1 and 0 < found["received"] < 1
