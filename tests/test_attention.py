"""The definition: the notes' numbers, laws that hold for any, and one meaning in both libraries."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard import attention
from regard.attention import project, scale, score, softmax, weighted_sum
from regard.mask import Causal, Padding, Table
from regard.score import ALiBi

X = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
EYE = np.eye(4)
SCORES = arrays.arrays(np.float64, (4, 5), elements=st.floats(-50, 50))


def test_the_notes_scaling_example():
    assert softmax(np.array([[6.0, 4.0]]))[0] == pytest.approx([0.8808, 0.1192], abs=5e-5)
    halved = scale(np.array([[6.0, 4.0]]), 4**-0.5)
    assert softmax(halved)[0] == pytest.approx([0.7311, 0.2689], abs=5e-5)


def test_each_step_alone():
    assert project(X, EYE[:, :2]).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert score(X, X)[2].tolist() == [2, 2, 4]
    assert scale(np.array([[3.0]]), 9**-0.5).tolist() == [[1]]
    assert weighted_sum(np.array([[0.5, 0.5, 0]]), X).tolist() == [[0.5, 0.5, 0.5, 0.5]]


@given(SCORES)
def test_rows_of_weights_sum_to_one(scores):
    weights = softmax(scores)
    assert weights.sum(axis=1) == pytest.approx(np.ones(4))
    assert (weights >= 0).all()


@given(SCORES, st.floats(-1000, 1000))
def test_softmax_ignores_what_all_scores_share(scores, shift):
    assert softmax(scores + shift) == pytest.approx(softmax(scores), abs=1e-9)


@given(SCORES)
def test_softmax_keeps_the_order(scores):
    for row, weights in zip(scores, softmax(scores), strict=True):
        assert weights[row.argmax()] == weights.max()


def test_huge_scores_do_not_overflow():
    assert softmax(np.array([[1e300, 0.0]])).tolist() == [[1, 0]]


def test_numpy_and_torch_say_the_same():
    """Grouped heads, soft cap, bias, a mask with a row that sees nothing, and a sink."""
    dice = np.random.default_rng(0)
    q, k, v = (dice.normal(size=(2, heads, 5, 3)) for heads in (4, 2, 2))
    sink = dice.normal(size=4)
    blind = Causal() & Table(np.arange(5)[:, None] != 2) & Padding(np.array([5, 3]))
    given_ = {"limit": 2.0, "rule": ALiBi(np.linspace(0.1, 1, 4)), "sink": sink, "allowed": blind}

    def tensor(value):
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        return value.map(torch.as_tensor) if hasattr(value, "map") else value

    ours = attention.attend(q, k, v, **given_)
    theirs = attention.attend(
        *map(tensor, (q, k, v)), **{name: tensor(value) for name, value in given_.items()}
    )
    assert ours.weights[:, :, 2].tolist() == np.zeros((2, 4, 5)).tolist()
    for field in fields(ours):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        np.testing.assert_allclose(a, np.asarray(b), atol=1e-12, err_msg=field.name)


def test_a_row_that_sees_nothing_has_a_gradient_of_zero():
    q, k, v = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    blind = Table(torch.tensor([[False] * 3, [True] * 3, [True] * 3]))
    steps = attention.attend(q, k, v, allowed=blind)
    steps.output.sum().backward()
    assert steps.output[0].tolist() == [0, 0, 0, 0]
    assert q.grad[0].tolist() == [0, 0, 0, 0]
    assert all(t.grad.isfinite().all() for t in (q, k, v))


def test_a_score_of_infinity_has_no_softmax():
    with np.errstate(invalid="ignore"):
        assert np.isnan(softmax(np.array([np.inf, 0.0]))).all()
    assert softmax(torch.tensor([torch.inf, 0.0])).isnan().all()
