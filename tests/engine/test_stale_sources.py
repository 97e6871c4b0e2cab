"""What an answer was computed from and is changed afterwards: tensors are noticed, all else was
copied when the call was made."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.errors import StaleError


def _tensors():
    dice = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, 2, 30, 8, generator=dice, requires_grad=True) for _ in range(3))


NUMPY = {
    "a table": (lambda: np.tri(30, dtype=bool), "mask", lambda given: given),
    "lengths": (lambda: np.array([7, 30]), "mask", regard.Padding),
    "booleans": (lambda: np.arange(30) < np.array([[7], [30]]), "mask", regard.Padding),
    "ids": (lambda: np.arange(30) // 7, "mask", regard.Documents),
    "a prefix": (lambda: np.array([3, 9]), "mask", regard.Prefix),
    "slopes": (lambda: np.array([0.5, 0.25]), "bias", regard.ALiBi),
    "a bias": (lambda: np.eye(30), "bias", lambda given: given),
    "a sink": (lambda: np.array([0.5, 1.0]), "sink", lambda given: given),
}


@pytest.mark.parametrize("implementation", [None, "cpu", "tiled", "dense"])
@pytest.mark.parametrize("kind", NUMPY)
def test_arrays_of_numpy_are_those_of_the_call(kind, implementation):
    make, option, wrap = NUMPY[kind]
    array, (q, k, v) = make(), _tensors()
    right = regard.attend(q, k, v, **{option: wrap(make())}, implementation=implementation)
    a = regard.attend(q, k, v, **{option: wrap(array)}, implementation=implementation)
    array[...] = 0
    torch.testing.assert_close(a.dense(), right.dense())
    torch.testing.assert_close(a.received(), right.received())
    torch.testing.assert_close(a.sink_mass(), right.sink_mass())
    mine, theirs = (torch.autograd.grad(x.output.square().sum(), q)[0] for x in (a, right))
    torch.testing.assert_close(mine, theirs)


def test_factors_of_numpy_too():
    q, k, v = _tensors()
    factor = np.ones(30, np.float32)
    product = (regard.attend(q, k, v) @ factor).square().sum()
    weighted = regard.attend(q, k, v).received(weighted_by=factor).square().sum()
    grads = [torch.autograd.grad(x, q, retain_graph=True)[0] for x in (product, weighted)]
    factor[:] = 5
    for before, x in zip(grads, (product, weighted), strict=True):
        torch.testing.assert_close(torch.autograd.grad(x, q)[0], before)


def test_starts_of_numpy_too():
    q, k, v = (t[0].transpose(0, 1) for t in _tensors())
    starts = np.array([0, 10, 30])
    a = regard.attend(q, k, v, cu_seqlens_q=starts)
    right = a.received().clone()
    starts[1] = 20
    torch.testing.assert_close(a.received(2), regard.attend(
        q, k, v, cu_seqlens_q=[0, 10, 30]).received(2))  # fmt: skip
    torch.testing.assert_close(a.received(), right)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "ask",
    [
        lambda a: a.received(), lambda a: a.entropy(), lambda a: a[..., :2, :],
        lambda a: a @ torch.ones(30), lambda a: a.T @ torch.ones(30), lambda a: a.received(1),
    ],
)  # fmt: skip
def test_the_lse_of_a_replay_is_watched(ask, grad):
    q, k, v = (t.detach().requires_grad_(grad) for t in _tensors())
    lse = regard.attend(q, k, v).lse.detach().clone()
    a = regard.replay(q, k, lse)
    ask(a)
    lse.add_(1)
    with pytest.raises(StaleError, match="lse, mask or bias was changed in place"):
        ask(a)


@pytest.mark.parametrize("implementation", [None, "cpu", "tiled", "dense", "library"])
def test_the_lse_that_an_attention_gives_away_is_watched(implementation):
    q, k, v = (t.detach() for t in _tensors())
    a = regard.attend(q, k, v, implementation=implementation)
    a.lse.add_(1)
    for ask in (lambda: a.sink_mass(), lambda: a.received(1), lambda: a.dense()):
        with pytest.raises(StaleError):
            ask()
