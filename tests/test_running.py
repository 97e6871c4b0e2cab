"""Online softmax with running sums, in numpy and in torch: tiles of any width make one sum."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.running import FinishedRows, RunningRows, sums_for
from regard.summary import Concentration, Distance, Entropy, MaxLogit, Visible

ASKED = (Entropy(), Concentration(), Distance(), MaxLogit(), Visible())
LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor}
SCORES = st.floats(-500, 500) | st.just(-np.inf)


def swept(
    scores: np.ndarray, ends: list[int], sink: float | None, library: str
) -> tuple[FinishedRows, list[np.ndarray]]:
    """(R, C) final scores in tiles, the last query at the last key."""
    array: Any = LIBRARIES[library]
    count, keys = scores.shape
    like = array(np.zeros(0))
    rows = RunningRows(sums_for(ASKED), (count,), like, like)
    with np.errstate(divide="ignore", invalid="ignore"):
        for start, stop in pairwise(ends):
            tile, i, j = map(
                array, (scores[:, start:stop], np.arange(count), np.arange(start, stop))
            )
            rows.fold(tile, tile, i, j, keys - count)
        done = rows.finish(None if sink is None else array(np.full(count, sink)))
        return done, [np.asarray(one.close(done.sums)) for one in ASKED]


def dense(scores: np.ndarray, sink: float | None) -> list[np.ndarray]:
    """lse, then what `ASKED` asks for."""
    count, keys = scores.shape
    every = scores if sink is None else np.concatenate([scores, np.full((count, 1), sink)], -1)
    with np.errstate(invalid="ignore"):
        lse = np.logaddexp.reduce(every, axis=-1)
    p = np.exp(every - np.where(np.isinf(lse), 0, lse)[:, None])
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    p = p[:, :keys]
    away = np.abs(np.arange(count)[:, None] + keys - count - np.arange(keys))
    largest = scores.max(-1, initial=-np.inf)
    return [
        lse, entropy, (p * p).sum(-1), (p * away).sum(-1), largest, np.isfinite(scores).sum(-1)
    ]  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sink", [None, 5.0])
def test_tiles_are_as_all_at_once(library: str, sink: float | None) -> None:
    scores = np.random.default_rng(0).normal(0, 30, (7, 300))
    scores[2] = -np.inf
    scores[3, :250] = -np.inf
    done, found = swept(scores, [*range(0, 300, 37), 300], sink, library)
    lse, *right = dense(scores, sink)
    np.testing.assert_allclose(np.asarray(done.peak + done.log), lse, rtol=1e-12)
    for one, a, b in zip(ASKED, found, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12, err_msg=repr(one))
    with np.errstate(invalid="ignore"):
        weights = np.asarray(done.weights(LIBRARIES[library](scores)))
    seen = np.isfinite(lse)
    np.testing.assert_allclose(weights[seen], np.exp(scores[seen] - lse[seen, None]), atol=1e-12)
    assert (weights[2] == 0).all()


@given(
    st.lists(SCORES, min_size=1, max_size=25),
    st.lists(st.integers(0, 25), max_size=4),
    st.none() | st.floats(-20, 20),
    st.sampled_from(list(LIBRARIES)),
)
def test_tiles_of_any_width_make_one_sum(
    scores: list[float], cuts: list[int], sink: float | None, library: str
) -> None:
    ends = sorted({0, *(cut for cut in cuts if cut <= len(scores)), len(scores)})
    done, (entropy, *_) = swept(np.array([scores]), ends, sink, library)
    lse, right, *_ = dense(np.array([scores]), sink)
    if not np.isfinite(lse).any():
        assert float(done.peak[0]) == -np.inf and entropy[0] == 0
        return
    np.testing.assert_allclose(np.asarray(done.peak + done.log), lse, atol=1e-9)
    np.testing.assert_allclose(entropy, right, atol=1e-8)
