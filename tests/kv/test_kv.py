"""Scores of keys against the published formulas, written down here over the dense matrix; which
keys stay within a budget, and what the others had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard import kv
from regard.errors import InputError, ShapeError, TooLargeError

HEADS, KEY_HEADS = 6, 2


def attention(tokens: int = 90, implementation: str | None = None) -> regard.Attention:
    dice = torch.Generator().manual_seed(tokens)
    q, k, v = (
        torch.randn(2, heads, tokens, 8, generator=dice, dtype=torch.float64)
        for heads in (HEADS, KEY_HEADS, KEY_HEADS)
    )
    return regard.attend(q, k, v, mask=regard.Causal(), implementation=implementation)


def weights(a: regard.Attention) -> Tensor:
    """(batch, Hkv, group, L, S)."""
    return a.dense().unflatten(1, (KEY_HEADS, HEADS // KEY_HEADS))


def h2o(p: Tensor) -> Tensor:
    """Zhang et al. 2023: the sum of a key's attention scores over decoding steps."""
    total = torch.zeros_like(p[:, :, 0, 0])
    for head in range(p.shape[2]):
        for step in range(p.shape[3]):
            total += p[:, :, head, step]
    return total


def observed(p: Tensor) -> Tensor:
    """kvpress: attentions.sum(2) / (number of tokens − position), mean over the group."""
    return (p.sum(-2) / torch.arange(p.shape[-1], 0, -1)).mean(2)


def snapkv(p: Tensor, window: int, kernel: int, pool: str) -> Tensor:
    """Li et al. 2024, listing 1: the window's votes for the prefix, clustered by pooling."""
    votes = p[..., -window:, :-window].mean(-2).mean(2)
    clustered = F.avg_pool1d if pool == "avg" else F.max_pool1d
    pooled = clustered(votes, kernel, stride=1, padding=kernel // 2)
    own = 1 + pooled.amax(-1, keepdim=True).expand(*pooled.shape[:-1], window)
    return torch.cat([pooled, own], -1)


def tova(p: Tensor) -> Tensor:
    """Oren et al. 2024: the last token's attention, averaged over the heads of a layer."""
    return torch.stack([p[..., -1, :].flatten(1, 2).mean(1)] * p.shape[1], 1)


def kvzip(p: Tensor) -> Tensor:
    """Kim et al. 2025: S_j = max over the group's queries of the attention that key j receives."""
    return p.flatten(2, 3).amax(2)


PUBLISHED: dict[str, tuple[Callable[[Any], Any], Callable[[Tensor], Tensor]]] = {
    "h2o": (kv.h2o, h2o),
    "observed": (kv.observed, observed),
    "snapkv": (lambda a: kv.snapkv(a, window=16), lambda p: snapkv(p, 16, 5, "avg")),
    "snapkv, max": (
        lambda a: kv.snapkv(a, window=9, kernel=7, pool="max"), lambda p: snapkv(p, 9, 7, "max")
    ),
    "snapkv, not pooled": (
        lambda a: kv.snapkv(a, window=1, kernel=1), lambda p: snapkv(p, 1, 1, "avg")
    ),
    "tova": (kv.tova, tova),
    "kvzip": (kv.kvzip, kvzip),
}  # fmt: skip


class Arrays:
    """The same answers as arrays, as a recorded head gives them."""

    def __init__(self, a: regard.Attention) -> None:
        self.a = a

    def received(self, *given: Any, **named: Any) -> Any:
        return self.a.received(*given, **named).numpy()


@pytest.mark.parametrize("implementation", [None, "tiled"])
@pytest.mark.parametrize("method", PUBLISHED)
def test_scores_are_as_published(method, implementation):
    a = attention(implementation=implementation)
    score, formula = PUBLISHED[method]
    scores = score(a)
    assert scores.shape == (2, KEY_HEADS, 90)
    torch.testing.assert_close(scores, formula(weights(a)), rtol=1e-9, atol=1e-12)
    arrays = score(Arrays(a))
    assert isinstance(arrays, np.ndarray)
    np.testing.assert_allclose(arrays, scores.numpy(), rtol=1e-12)


def test_every_method_has_a_name():
    a = attention()
    assert {name: kv.METHODS[name](a).shape for name in kv.METHODS} == dict.fromkeys(
        ("h2o", "kvzip", "observed", "snapkv", "tova"), torch.Size((2, KEY_HEADS, 90))
    )


def test_scores_with_the_norms_of_what_a_key_adds_to_the_output():
    a, w_o = attention(), torch.randn(HEADS * 8, 11).double()
    value = torch.randn(2, KEY_HEADS, 90, 8).double()
    norms = kv.value_norms(value, w_o)
    for head in range(HEADS):
        right = (value[:, head // 3] @ w_o[head * 8 : head * 8 + 8]).norm(dim=-1)
        torch.testing.assert_close(norms[:, head], right)
    np.testing.assert_allclose(kv.value_norms(value.numpy(), w_o.numpy()), norms.numpy())
    p, norms = weights(a), norms.unflatten(1, (KEY_HEADS, -1))
    torch.testing.assert_close(kv.value_aware(a, value, w_o), (p.sum(-2) * norms).mean(2))
    scores = kv.value_aware(a, value, w_o, queries=7, how="max", groups="max")
    torch.testing.assert_close(scores, (p[..., -7:, :].amax(-2) * norms).amax(2))


def test_a_prompt_too_long_for_eager():
    """20,000 keys: the dense matrix of one head would take 1.5 GiB; it is refused."""
    tokens = 20_000
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, tokens, 8, generator=dice) for _ in range(3))
    a = regard.attend(q, k, v, mask=regard.Causal())
    with pytest.raises(TooLargeError):
        a.dense()
    last = a.rows(slice(-64, None))
    torch.testing.assert_close(kv.snapkv(a), snapkv(last[:, :, None], 64, 5, "avg"))
    some = torch.tensor([0, 17, 9_999, tokens - 1])
    column = a[..., some]
    torch.testing.assert_close(kv.h2o(a)[..., some], column.sum(-2), rtol=1e-4, atol=1e-6)
    keep = kv.select(kv.snapkv(a), 0.1)
    assert keep.shape == (1, 1, 2_000)
    assert kv.lost_mass(a, keep).shape == (1, 1)


# ── which keys stay ──────────────────────────────────────────────────────────────────────────

SCORES = torch.tensor([[0.1, 0.9, 0.3, 0.8, 0.2, 0.0], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]])
ALL = [list(range(6))] * 2


@pytest.mark.parametrize("make", [torch.clone, torch.Tensor.numpy], ids=["tensor", "array"])
@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        ((2, 0, 0), [[1, 3], [0, 1]]),  # the lower key among equals
        ((0.5, 0, 1), [[1, 3, 5], [0, 1, 5]]),
        ((4, 2, 1), [[0, 1, 3, 5], [0, 1, 2, 5]]),
        ((99, 2, 1), ALL),
        ((1.0, 4, 64), ALL),
    ],
)
def test_the_best_within_the_budget(make, budget, kept):
    assert kv.select(make(SCORES), *budget).tolist() == kept


def test_keys_and_values_are_taken():
    key, value = torch.randn(3, 2, 6, 4), torch.randn(3, 2, 6, 5)
    keep = kv.select(SCORES.expand(3, 2, 6), 3, 1, 1)
    some, others = kv.take(keep, key, value)
    assert some.shape == (3, 2, 3, 4) and others.shape == (3, 2, 3, 5)
    for head in range(2):
        assert torch.equal(some[1, head], key[1, head, keep[1, head]])
    assert np.array_equal(kv.take(keep.numpy(), key.numpy())[0], some.numpy())
    with pytest.raises(ShapeError, match="key heads"):
        kv.take(keep, key[0])


def test_attention_lost_with_the_others():
    a = attention(9)
    keep, p = kv.select(kv.h2o(a), 4, 1, 1), a.dense()
    for queries, rows in ((None, slice(None)), (3, slice(-3, None))):
        lost = kv.lost_mass(a, keep, queries)
        for b in range(2):
            for h in range(HEADS):
                gone = [j for j in range(9) if j not in keep[b, h // 3]]
                right = p[b, h, rows][:, gone].sum() / p[b, h, rows].sum()
                torch.testing.assert_close(lost[b, h], right)
    q = torch.randn(1, 5, 4)
    nothing = regard.attend(q, q, q, mask=regard.Padding(torch.tensor(0)))
    assert kv.lost_mass(nothing, torch.tensor([[0, 1]])).tolist() == [0.0]


def test_an_eviction_is_a_value():
    a = attention(80)
    some = kv.Eviction("observed", 70, sinks=2, recent=8)
    assert some == kv.Eviction("observed", 70, 2, 8)
    assert torch.equal(some.keep(a, 80), kv.select(kv.observed(a), 70, 2, 8))
    assert kv.Eviction(lambda _: -kv.h2o(a), 0.5, 0, 8).keep(a, 80).shape == (2, KEY_HEADS, 40)
    assert kv.Eviction(budget=100).keep(a, 80) is None, "all stay"
    assert kv.Eviction(budget=0.5).keep(a, 60) is None, "all are sinks or recent"


REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    *((kv.select, (SCORES, *given), words) for given, words in (
        ((0,), "a number of keys ≥ 1"), ((True,), "a number of keys ≥ 1"), (("half",), "≥ 1"),
        ((0.0,), "a share above 0"), ((1.5,), "a share above 0"), ((float("nan"),), "a share"),
        ((3, 2, 2), "which always stay"), ((0.1, 0, 0), "which always stay"),
        ((3, -1, 0), "sinks=-1"), ((3, 0, 2.0), "recent=2.0"),
    )),
    *((kv.Eviction, given, words) for given, words in (
        (("lru",), "give one of h2o, kvzip, observed, snapkv, tova"),
        ((3,), "a function of an attention"),
        (("h2o", 50), "which always stay"), (("h2o", 2.0), "a share above 0"),
    )),
    *((kv.snapkv, (attention(), *given), words) for given, words in (
        ((0,), "a whole number ≥ 1"), ((1.5,), "a whole number ≥ 1"), ((8, 4), "an odd number"),
        ((8, 5, "min"), "'avg' or 'max'"), ((90,), "none before the window"),
        ((500,), "none before the window"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("call", "given", "words"), REFUSED, ids=[repr(r[2]) for r in REFUSED])
def test_what_keeps_nothing_is_refused(call, given, words):
    with pytest.raises(InputError, match=words):
        call(*given)


def test_a_projection_that_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match=r"weight\.T"):
        kv.value_norms(torch.ones(2, 9, 4), torch.ones(11, 24))
