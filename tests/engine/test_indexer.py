"""regard.lightning_indexer: one matrix out of several heads, against the formula written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import plan
from regard.engine.call import NO_DOT
from regard.errors import ShapeError, UnavailableError

F64 = torch.float64


def _inputs(queries: int = 40, keys: int = 55) -> list[Tensor]:
    torch.manual_seed(0)
    sizes = [(2, 3, queries, 8), (2, 1, keys, 8), (2, 3, queries)]
    return [torch.randn(size, dtype=F64, requires_grad=True) for size in sizes]


def _scores(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    raw = (w[..., None] * (q @ k.mT).relu()).sum(-3, keepdim=True)
    queries, keys = raw.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)
    return raw.masked_fill(hidden, -torch.inf)


@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_every_answer_and_gradient(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_order", lambda problem: (backend,))
    q, k, w = _inputs()
    a = regard.lightning_indexer(q, k, w, mask=regard.Causal())
    assert a.implementation == backend and a.shape == (2, 1, 40, 55)
    scores = _scores(q, k, w)
    weights = scores.softmax(-1)
    entropy = torch.special.entr(weights.clamp(min=1e-300)).sum(-1)
    torch.testing.assert_close(a[...], weights)
    torch.testing.assert_close(a.lse, scores.logsumexp(-1), check_dtype=False)
    torch.testing.assert_close(a.entropy(), entropy)
    torch.testing.assert_close(a.received(), weights.sum(-2))
    torch.testing.assert_close(a.top(5).weights, weights.topk(5).values)
    found = torch.autograd.grad(a.entropy().sum() + a[..., 7, :].square().sum(), (q, k, w))
    expected = torch.autograd.grad(entropy.sum() + weights[..., 7, :].square().sum(), (q, k, w))
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want)


def test_kernels_of_dot_products_say_why_they_cannot() -> None:
    q, k, w = (t.detach() for t in _inputs())
    call = regard.lightning_indexer(q, k, w)._call
    for name in ("cpu", "library"):
        with pytest.raises(UnavailableError, match="dot products"):
            plan.choose(call.problem(), name)
    assert NO_DOT in plan.sweeps_called("triton").reasons(call.problem())


@pytest.mark.parametrize(
    ("key", "weights"), [((2, 3, 55, 8), (2, 3, 40)), ((2, 1, 55, 8), (2, 40, 3))]
)
def test_shapes_that_do_not_fit(key: tuple[int, ...], weights: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError):
        regard.lightning_indexer(torch.randn(2, 3, 40, 8), torch.randn(key), torch.randn(weights))
