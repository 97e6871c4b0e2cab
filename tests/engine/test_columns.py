"""What keys received: from some of the queries, weighted, the largest; packed and in parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

import regard
from engine.conftest import draw, qkv
from regard.summary import Received

QUERIES, KEYS = 300, 310  # so many that a few of them are asked apart
MASKS: dict[str, Any] = {
    "none": None,
    "causal": regard.Causal(),
    "start": regard.Causal("start"),
    "window": regard.Window(30, 5),
    "padding": regard.Padding(torch.tensor([KEYS, 100])),
    "either": regard.Causal() | regard.Prefix(30),
    "rule": regard.Rule(lambda i, j: (i + j) % 3 > 0),
}
PARTS = (40, slice(10, 50), slice(-90, -60), range(100, 120), slice(7, 7), [5, 250, 6])


def rows_of(part: Any) -> torch.Tensor:
    every = torch.arange(QUERIES)
    if isinstance(part, int):
        return every[-part:]
    return every[part] if isinstance(part, slice) else every[list(part)]


@pytest.mark.parametrize("implementation", ["cpu", "tiled", None])
@pytest.mark.parametrize("mask", MASKS)
def test_mass_from_some_queries_is_that_of_their_rows(mask: str, implementation: str) -> None:
    q, k, v = qkv(QUERIES, KEYS, heads=(2, 1), dtype=torch.float64)
    options = {"mask": MASKS[mask], "bias": regard.ALiBi(draw(2).abs()), "softcap": 5.0}
    right = regard.attend(q, k, v, implementation="dense", **options)
    weights, seen = right.dense(), right.scores[...] != -torch.inf
    a = regard.attend(q, k, v, implementation=implementation, **options)
    for part in PARTS:
        rows = rows_of(part)
        p, count = weights[..., rows, :], seen[..., rows, :].sum(-2)
        asked = Received(part), Received(part, "visible"), Received(part, groups="mean")
        answers = a.summarize(*asked, regard.Entropy())
        assert list(answers) == [*asked, regard.Entropy()]
        assert_close(answers[asked[0]], p.sum(-2))
        assert_close(answers[asked[1]], p.sum(-2) / count.clamp(min=1))
        assert_close(answers[asked[2]], p.sum(-2).mean(-2, keepdim=True))
    assert_close(answers[regard.Entropy()], right.entropy())
    q.requires_grad_()
    a = regard.attend(q, k, v, implementation="tiled", mask=MASKS["causal"])
    (grad,) = torch.autograd.grad(a.received(20)[..., 3].sum(), q)
    assert grad[:, :, -20:].any() and not grad[:, :, :-20].any()


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
@pytest.mark.parametrize("heads", [(), (4,)], ids=["for all heads", "a head each"])
def test_weights_of_queries_have_gradients(implementation: str, heads: tuple[int, ...]) -> None:
    q, k, v = qkv(6, 5, dtype=torch.float64, grad=True)
    by = draw(*heads, 6).requires_grad_()
    asked = {"queries": 4, "how": "mean", "weighted_by": by}
    a = regard.attend(q, k, v, mask=regard.Causal("start"), implementation=implementation)
    weights = a.dense()[..., 2:, :]
    count = torch.tensor([4, 4, 4, 3, 2])  # of the last four queries, who may see each key
    right = (weights * by[..., 2:, None]).sum(-2) / count
    on = draw(*right.shape)
    grads = [
        torch.autograd.grad((x * on).sum(), (by, q, k), retain_graph=True)
        for x in (a.received(**asked), right)
    ]
    assert_close(*grads)
    assert grads[0][0].any()
