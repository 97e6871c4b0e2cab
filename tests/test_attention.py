"""The definition: the notes' numbers, laws that hold for any, and one meaning in both libraries;
rows in tiles are rows at once."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard import attention
from regard.attention import project, scale, score, softmax, weighted_sum
from regard.mask import Causal, Padding, Table
from regard.running import RunningRows, sums_for
from regard.score import ALiBi
from regard.summary import Concentration, Distance, Entropy, MaxLogit, Visible

X = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
SCORES = arrays.arrays(np.float64, (4, 5), elements=st.floats(-50, 50))


def test_the_notes_scaling_example():
    assert softmax(np.array([[6.0, 4.0]]))[0] == pytest.approx([0.8808, 0.1192], abs=5e-5)
    halved = scale(np.array([[6.0, 4.0]]), 4**-0.5)
    assert softmax(halved)[0] == pytest.approx([0.7311, 0.2689], abs=5e-5)


def test_each_step_alone():
    assert project(X, np.eye(4)[:, :2]).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert score(X, X)[2].tolist() == [2, 2, 4]
    assert scale(np.array([[3.0]]), 9**-0.5).tolist() == [[1]]
    assert weighted_sum(np.array([[0.5, 0.5, 0]]), X).tolist() == [[0.5, 0.5, 0.5, 0.5]]


@given(SCORES, st.floats(-1000, 1000))
def test_softmax_sums_to_one_keeps_the_order_and_ignores_what_all_scores_share(scores, shift):
    weights = softmax(scores)
    assert weights.sum(axis=1) == pytest.approx(np.ones(4)) and (weights >= 0).all()
    assert softmax(scores + shift) == pytest.approx(weights, abs=1e-9)
    for row, own in zip(scores, weights, strict=True):
        assert own[row.argmax()] == own.max()


def test_huge_scores_do_not_overflow_and_infinity_has_no_softmax():
    assert softmax(np.array([[1e300, 0.0]])).tolist() == [[1, 0]]
    with np.errstate(invalid="ignore"):
        assert np.isnan(softmax(np.array([np.inf, 0.0]))).all()
    assert softmax(torch.tensor([torch.inf, 0.0])).isnan().all()


def test_numpy_and_torch_agree():
    """Grouped heads, soft cap, bias, a mask with a row that sees nothing, and a sink."""
    dice = np.random.default_rng(0)
    q, k, v = (dice.normal(size=(2, heads, 5, 3)) for heads in (4, 2, 2))
    blind = Causal() & Table(np.arange(5)[:, None] != 2) & Padding(np.array([5, 3]))
    options = {
        "limit": 2.0, "rule": ALiBi(np.linspace(0.1, 1, 4)), "sink": dice.normal(size=4),
        "allowed": blind,
    }  # fmt: skip

    def tensor(value):
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        return value.map(torch.as_tensor) if hasattr(value, "map") else value

    ours = attention.attend(q, k, v, **options)
    theirs = attention.attend(
        *map(tensor, (q, k, v)), **{name: tensor(value) for name, value in options.items()}
    )
    assert (ours.weights[:, :, 2] == 0).all()
    for field in fields(ours):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        np.testing.assert_allclose(a, np.asarray(b), atol=1e-12, err_msg=field.name)


def test_a_row_that_sees_nothing_has_a_gradient_of_zero():
    q, k, v = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    blind = Table(torch.tensor([[False] * 3, [True] * 3, [True] * 3]))
    steps = attention.attend(q, k, v, allowed=blind)
    steps.output.sum().backward()
    assert steps.output[0].tolist() == q.grad[0].tolist() == [0, 0, 0, 0]
    assert all(t.grad.isfinite().all() for t in (q, k, v))


# ── rows in tiles: online softmax with running sums ──────────────────────────────────────────

SUMMARIES = (Entropy(), Concentration(), Distance(), MaxLogit(), Visible())


def dense(scores: np.ndarray, sink: float | None) -> list[np.ndarray]:
    """lse, then the summaries, of (R, C) final scores, the last query at the last key."""
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


@given(
    st.lists(st.floats(-500, 500) | st.just(-np.inf), min_size=1, max_size=25),
    st.lists(st.integers(0, 25), max_size=4),
    st.none() | st.floats(-20, 20),
    st.sampled_from([np.asarray, torch.as_tensor]),
)
def test_tiles_of_any_width_make_one_sum(row, cuts, sink, array: Any):
    scores = np.array([row, row[::-1], [-np.inf] * len(row)])
    count, keys = scores.shape
    empty = array(np.zeros(0))
    rows = RunningRows(sums_for(SUMMARIES), (count,), empty, empty)
    with np.errstate(divide="ignore", invalid="ignore"):
        for start, stop in pairwise(sorted({0, *(c for c in cuts if c <= keys), keys})):
            tile, i, j = map(
                array, (scores[:, start:stop], np.arange(count), np.arange(start, stop))
            )
            rows.fold(tile, tile, i, j, keys - count)
        done = rows.finish(None if sink is None else array(np.full(count, sink)))
        closed = [np.asarray(summary.close(done.sums)) for summary in SUMMARIES]
        lse, *right = dense(scores, sink)
        seen = np.isfinite(lse)
        np.testing.assert_allclose(np.asarray(done.peak + done.log)[seen], lse[seen], atol=1e-9)
        for summary, a, b in zip(SUMMARIES, closed, right, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8, rtol=1e-8, err_msg=repr(summary))
        weights = np.asarray(done.weights(array(scores)))
    wanted = np.exp(scores[seen] - lse[seen, None])
    np.testing.assert_allclose(weights[seen], wanted, atol=1e-12, rtol=1e-9)
    assert (weights[2] == 0).all()
