"""The definition of the four divergences, for numpy and torch alike."""

from __future__ import annotations

from math import inf, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.divergences import How, row_divergence

# hidden cells are −∞ − (−∞) before they are left out
pytestmark = pytest.mark.filterwarnings("ignore:invalid value")

HOWS: tuple[How, ...] = ("kl", "reverse_kl", "js", "tv")


def _rows(seed: int, keys: int) -> Any:
    """Logarithms of weights (1, 3, keys), some of them hidden."""
    dice = np.random.default_rng(seed)
    scores = dice.normal(size=(1, 3, keys)) * 3
    scores[:, 1, dice.random(keys) < 0.3] = -inf
    scores[:, 1, 0] = 0.0
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_what_every_divergence_promises(seed: int, keys: int) -> None:
    p, q = _rows(seed, keys), _rows(seed + 1, keys)
    q[:, 1] = p[:, 1]
    for how in HOWS:
        found = row_divergence(how, p, q)
        assert (found >= -1e-12).all()
        assert (row_divergence(how, p, p) == 0).all()
        torch_found = row_divergence(how, torch.tensor(p), torch.tensor(q))
        np.testing.assert_allclose(found, torch_found.numpy(), atol=1e-12)
    np.testing.assert_allclose(
        row_divergence("kl", p, q), row_divergence("reverse_kl", q, p), atol=1e-12
    )
    assert (row_divergence("js", p, q) <= log(2) + 1e-12).all()
    assert (row_divergence("tv", p, q) <= 1 + 1e-12).all()


@pytest.mark.parametrize("how", HOWS)
def test_keys_that_one_side_does_not_see(how: How) -> None:
    p, q = np.log([[0.5, 0.5, 1e-99]]), np.array([[log(0.5), log(0.5), -inf]])
    expected = {"kl": inf, "reverse_kl": 0.0, "js": 0.0, "tv": 0.0}[how]
    assert row_divergence(how, p, q) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("how", "teacher", "student"),
    [("kl", 0.0, inf), ("reverse_kl", inf, 0.0), ("js", inf, inf), ("tv", inf, inf)],
)
def test_rows_that_see_nothing(how: How, teacher: float, student: float) -> None:
    row, nothing = np.log([[0.25, 0.75]]), np.full((1, 2), -inf)
    assert row_divergence(how, nothing, row) == teacher
    assert row_divergence(how, row, nothing) == student
    assert row_divergence(how, nothing, nothing) == 0
    empty = np.empty((1, 0))
    assert row_divergence(how, empty, empty) == 0


def test_weights_too_small_for_a_float_keep_their_logarithm() -> None:
    p, q = np.array([[0.0, -2000.0]]), np.array([[-1000.0, 0.0]])
    assert row_divergence("kl", p, q) == pytest.approx(1000)
    assert row_divergence("reverse_kl", p, q) == pytest.approx(2000)
