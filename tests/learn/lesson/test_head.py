"""A head of the lesson: the notes' numbers, masks, widths, JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.learn.lesson.head import attend
from regard.mask import Causal, Table, Window

X = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
EYE = np.eye(4)
SCORES = arrays.arrays(np.float64, (4, 5), elements=st.floats(-50, 50))


def test_the_notes_example():
    head = attend(X, EYE, EYE, EYE)
    assert head.scores[0].tolist() == [2, 0, 2]
    assert head.scaled[0].tolist() == [1, 0, 1]
    assert head.weights[0] == pytest.approx([0.4223, 0.1554, 0.4223], abs=5e-5)
    assert head.context[0] == pytest.approx([0.8446, 0.5777, 0.8446, 0.5777], abs=5e-5)


def test_without_scaling():
    head = attend(X, EYE, EYE, EYE, scaled=False)
    assert np.array_equal(head.scaled, head.scores)
    share = math.exp(2) / (2 * math.exp(2) + 1)
    assert head.weights[0, 0] == pytest.approx(share)


def test_a_causal_row_sees_itself_and_before():
    head = attend(X, EYE, EYE, EYE, mask=Causal())
    assert np.isneginf(head.masked[np.triu_indices(3, 1)]).all()
    assert (head.weights[np.triu_indices(3, 1)] == 0).all()
    assert head.weights[0].tolist() == [1, 0, 0]
    assert np.isfinite(head.scores).all()


def test_a_row_that_sees_nothing_gives_nothing():
    blind = Table(np.array([[False] * 3, [True] * 3, [True] * 3]))
    head = attend(X, EYE, EYE, EYE, mask=blind)
    assert head.weights[0].tolist() == [0, 0, 0]
    assert head.context[0].tolist() == [0, 0, 0, 0]


def test_masks_other_than_causal_work_alike():
    masked = attend(X, EYE, EYE, EYE, mask=Window(0)).masked
    assert np.isfinite(masked).sum() == 3


def test_values_may_have_their_own_width():
    head = attend(X, EYE[:, :2], EYE[:, :2], np.ones((4, 7)))
    assert head.context.shape == (3, 7)
    assert head.scaled == pytest.approx(head.scores / math.sqrt(2))


def test_hidden_cells_are_none_in_json():
    given_ = attend(X, EYE, EYE, EYE, mask=Causal()).as_dict()
    assert given_["masked"][0] == [1.0, None, None]
    assert json.loads(json.dumps(given_, allow_nan=False)) == given_
    assert list(given_) == [
        "w_q", "w_k", "w_v", "queries", "keys", "values", "scores", "scaled", "masked", "weights",
        "context",
    ]  # fmt: skip
