"""Which keys stay, and what the others had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import kv
from regard.errors import InputError, ShapeError

SCORES = torch.tensor([[0.1, 0.9, 0.3, 0.8, 0.2, 0.0], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]])


@pytest.mark.parametrize("make", [torch.clone, torch.Tensor.numpy], ids=["tensor", "array"])
def test_the_best_within_the_budget(make: Any) -> None:
    scores = make(SCORES)
    assert kv.select(scores, 2, 0, 0).tolist() == [[1, 3], [0, 1]], "the lower key among equals"
    assert kv.select(scores, 0.5, 0, 1).tolist() == [[1, 3, 5], [0, 1, 5]]
    assert kv.select(scores, 4, 2, 1).tolist() == [[0, 1, 3, 5], [0, 1, 2, 5]]
    assert kv.select(scores, 99, 2, 1).tolist() == [list(range(6))] * 2
    assert kv.select(scores, 1.0, 4, 64).tolist() == [list(range(6))] * 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((0,), "a number of keys ≥ 1"), ((True,), "a number of keys ≥ 1"), (("half",), "≥ 1"),
        ((0.0,), "a share above 0"), ((1.5,), "a share above 0"), ((float("nan"),), "a share"),
        ((3, 2, 2), "which always stay"), ((0.1, 0, 0), "which always stay"),
        ((3, -1, 0), "sinks=-1"), ((3, 0, 2.0), "recent=2.0"),
    ],
)  # fmt: skip
def test_budgets_that_keep_nothing_are_refused(given: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        kv.select(SCORES, *given)


def test_keys_and_values_are_taken() -> None:
    key, value = torch.randn(3, 2, 6, 4), torch.randn(3, 2, 6, 5)
    keep = kv.select(SCORES.expand(3, 2, 6), 3, 1, 1)
    some, others = kv.take(keep, key, value)
    assert some.shape == (3, 2, 3, 4) and others.shape == (3, 2, 3, 5)
    for head in range(2):
        assert torch.equal(some[1, head], key[1, head, keep[1, head]])
    arrays = kv.take(keep.numpy(), key.numpy())
    assert np.array_equal(arrays[0], some.numpy())
    with pytest.raises(ShapeError, match="key heads"):
        kv.take(keep, key[0])


def test_attention_lost_with_the_others() -> None:
    q, k = torch.randn(2, 4, 9, 8).double(), torch.randn(2, 2, 9, 8).double()
    a = regard.attend(q, k, k, mask=regard.Causal())
    keep = kv.select(kv.h2o(a), 4, 1, 1)
    p = a.dense()
    for queries, rows in ((None, slice(None)), (3, slice(-3, None))):
        lost = kv.lost_mass(a, keep, queries)
        for b in range(2):
            for h in range(4):
                gone = [j for j in range(9) if j not in keep[b, h // 2]]
                right = p[b, h, rows][:, gone].sum() / p[b, h, rows].sum()
                torch.testing.assert_close(lost[b, h], right)


def test_nothing_is_lost_of_nothing() -> None:
    q = torch.randn(1, 5, 4)
    a = regard.attend(q, q, q, mask=regard.Padding(torch.tensor(0)))
    assert kv.lost_mass(a, torch.tensor([[0, 1]])).tolist() == [0.0]


# ── as one value ─────────────────────────────────────────────────────────────────────────────


def test_an_eviction_is_a_value() -> None:
    a = regard.attend(*[torch.randn(1, 2, 80, 8) for _ in range(3)], mask=regard.Causal())
    some = kv.Eviction("observed", 70, sinks=2, recent=8)
    assert some == kv.Eviction("observed", 70, 2, 8)
    assert torch.equal(some.keep(a, 80), kv.select(kv.observed(a), 70, 2, 8))
    assert kv.Eviction(lambda _: -kv.h2o(a), 0.5, 0, 8).keep(a, 80).shape == (1, 2, 40)
    assert kv.Eviction(budget=100).keep(a, 80) is None, "all stay"
    assert kv.Eviction(budget=0.5).keep(a, 60) is None, "all are sinks or recent"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"by": "lru"}, "give one of h2o, kvzip, observed, snapkv, tova"),
        ({"by": 3}, "a function of an attention"),
        ({"budget": 50}, "which always stay"), ({"budget": 2.0}, "a share above 0"),
    ],
)  # fmt: skip
def test_an_eviction_that_cannot_be_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        kv.Eviction(**given)
