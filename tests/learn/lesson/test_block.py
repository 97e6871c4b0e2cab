"""Residual, norm and MLP."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.learn.lesson.block import EPSILON, WIDENING, layer_norm, run_block

ROWS = arrays.arrays(np.float64, (3, 4), elements=st.floats(-100, 100))


def test_layer_norm_by_hand():
    (row,) = layer_norm(np.array([[1.0, 3.0]]))
    assert row == pytest.approx([-1 / np.sqrt(1 + EPSILON), 1 / np.sqrt(1 + EPSILON)])


def test_a_constant_row_becomes_zero_not_nan():
    assert layer_norm(np.ones((1, 4))).tolist() == [[0, 0, 0, 0]]


@given(ROWS)
def test_normed_rows_have_mean_zero_and_deviation_at_most_one(rows):
    normed = layer_norm(rows)
    assert np.abs(normed.mean(axis=1)).max() < 1e-9
    assert normed.std(axis=1).max() <= 1 + 1e-9


@given(ROWS, ROWS, st.integers(0, 100))
def test_every_intermediate_follows_from_those_before(x, attention, seed):
    block = run_block(x, attention, seed=seed)
    assert np.array_equal(block.residual, x + attention)
    assert np.array_equal(block.normed, layer_norm(block.residual))
    assert np.array_equal(block.hidden, block.normed @ block.w_1)
    assert np.array_equal(block.activated, np.where(block.hidden > 0, block.hidden, 0))
    assert np.array_equal(block.mlp, block.activated @ block.w_2)
    assert np.array_equal(block.residual_2, block.normed + block.mlp)
    assert np.array_equal(block.output, layer_norm(block.residual_2))


def test_sizes_and_seeds():
    x = np.ones((2, 3))
    block = run_block(x, x, seed=1)
    assert block.w_1.shape == (3, WIDENING * 3)
    assert block.w_2.shape == (WIDENING * 3, 3)
    assert not np.array_equal(block.w_1, run_block(x, x, seed=2).w_1)
    assert not np.array_equal(block.w_1.ravel(), block.w_2.ravel())


def test_as_dict_holds_everything():
    block = run_block(np.ones((2, 4)), np.zeros((2, 4)))
    given_ = block.as_dict()
    assert list(given_) == [
        "w_1", "w_2", "residual", "normed", "hidden", "activated", "mlp", "residual_2", "output",
    ]  # fmt: skip
    assert np.array_equal(np.array(given_["mlp"]), block.mlp)
