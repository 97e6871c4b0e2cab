"""Scores of keys against the published formulas, written down here over the dense matrix."""

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
from regard.errors import InputError, ShapeError

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


# ── the formulas ─────────────────────────────────────────────────────────────────────────────


def h2o(p: Tensor) -> Tensor:
    """Zhang et al. 2023: the sum of a key's attention scores over decoding steps."""
    found = torch.zeros_like(p[:, :, 0, 0])
    for head in range(p.shape[2]):
        for step in range(p.shape[3]):
            found += p[:, :, head, step]
    return found


def observed(p: Tensor) -> Tensor:
    """kvpress: attentions.sum(2) / (number of tokens − position), mean over the group."""
    tokens = p.shape[-1]
    return (p.sum(-2) / torch.arange(tokens, 0, -1)).mean(2)


def snapkv(p: Tensor, window: int, kernel: int, pool: str) -> Tensor:
    """Li et al. 2024, listing 1: the window's votes for the prefix, clustered by pooling."""
    votes = p[..., -window:, :-window].mean(-2).mean(2)
    if pool == "avg":
        pooled = F.avg_pool1d(votes, kernel, stride=1, padding=kernel // 2)
    else:
        pooled = F.max_pool1d(votes, kernel, stride=1, padding=kernel // 2)
    own = 1 + pooled.amax(-1, keepdim=True).expand(*pooled.shape[:-1], window)
    return torch.cat([pooled, own], -1)


def tova(p: Tensor) -> Tensor:
    """Oren et al. 2024: the last token's attention, averaged over the heads of a layer."""
    last = p[..., -1, :].flatten(1, 2).mean(1)
    return torch.stack([last] * p.shape[1], 1)


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


@pytest.mark.parametrize("implementation", [None, "tiled", "dense"])
@pytest.mark.parametrize("method", PUBLISHED)
def test_as_published(method: str, implementation: str | None) -> None:
    a = attention(implementation=implementation)
    score, formula = PUBLISHED[method]
    found = score(a)
    assert found.shape == (2, KEY_HEADS, 90)
    torch.testing.assert_close(found, formula(weights(a)), rtol=1e-9, atol=1e-12)


def test_every_method_has_a_name() -> None:
    a = attention()
    assert {name: kv.METHODS[name](a).shape for name in kv.METHODS} == dict.fromkeys(
        ("h2o", "kvzip", "observed", "snapkv", "tova"), torch.Size((2, KEY_HEADS, 90))
    )


class Recorded:
    """The same answers as arrays."""

    def __init__(self, a: regard.Attention) -> None:
        self.a = a

    def received(self, *given: Any, **named: Any) -> Any:
        return self.a.received(*given, **named).numpy()


@pytest.mark.parametrize("method", PUBLISHED)
def test_arrays_give_arrays(method: str) -> None:
    a, score = attention(), PUBLISHED[method][0]
    found = score(Recorded(a))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, score(a).numpy(), rtol=1e-12)


# ── values ───────────────────────────────────────────────────────────────────────────────────


def test_norms_of_what_a_key_adds_to_the_output() -> None:
    value, w_o = torch.randn(3, KEY_HEADS, 20, 5).double(), torch.randn(HEADS * 5, 11).double()
    found = kv.value_norms(value, w_o)
    for head in range(HEADS):
        right = (value[:, head // 3] @ w_o[head * 5 : head * 5 + 5]).norm(dim=-1)
        torch.testing.assert_close(found[:, head], right)
    np.testing.assert_allclose(kv.value_norms(value.numpy(), w_o.numpy()), found.numpy())


def test_scores_with_values() -> None:
    a, w_o = attention(), torch.randn(HEADS * 8, 11).double()
    value = torch.randn(2, KEY_HEADS, 90, 8).double()
    norms = kv.value_norms(value, w_o).unflatten(1, (KEY_HEADS, -1))
    p = weights(a)
    torch.testing.assert_close(kv.value_aware(a, value, w_o), (p.sum(-2) * norms).mean(2))
    found = kv.value_aware(a, value, w_o, queries=7, how="max", groups="max")
    torch.testing.assert_close(found, (p[..., -7:, :].amax(-2) * norms).amax(2))


def test_a_projection_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"weight\.T"):
        kv.value_norms(torch.ones(2, 9, 4), torch.ones(11, 24))


# ── refused ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"window": 0}, "a whole number ≥ 1"), ({"window": 1.5}, "a whole number ≥ 1"),
        ({"kernel": 4}, "an odd number"), ({"pool": "min"}, "'avg' or 'max'"),
        ({"window": 90}, "none before the window"), ({"window": 500}, "none before the window"),
    ],
)  # fmt: skip
def test_words_of_snapkv(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        kv.snapkv(attention(), **given)


def test_a_prompt_too_long_for_eager() -> None:
    """20,000 keys: the dense matrix of one head would take 1.5 GiB; it is refused."""
    tokens = 20_000
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, tokens, 8, generator=dice) for _ in range(3))
    a = regard.attend(q, k, v, mask=regard.Causal())
    with pytest.raises(regard.errors.TooLargeError):
        a.dense()
    last = a.rows(slice(-64, None))
    right = snapkv(last[:, :, None], 64, 5, "avg")
    torch.testing.assert_close(kv.snapkv(a), right)
    for name in ("h2o", "observed", "kvzip"):
        scores = kv.METHODS[name](a)
        some = torch.tensor([0, 17, 9_999, tokens - 1])
        column = a[..., some]
        formula = {"h2o": column.sum(-2), "kvzip": column.amax(-2)}
        formula["observed"] = column.sum(-2) / (tokens - some)
        torch.testing.assert_close(scores[..., some], formula[name], rtol=1e-4, atol=1e-6)
    keep = kv.select(kv.snapkv(a), 0.1)
    assert keep.shape == (1, 1, 2_000)
    assert kv.lost_mass(a, keep).shape == (1, 1)
