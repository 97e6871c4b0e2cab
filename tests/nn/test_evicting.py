"""Caches that drop keys by the attention they received."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from nn.small import SIZES, language_model
from regard import kv
from regard.errors import InputError
from regard.nn import multi_head
from regard.nn.cache import EvictingCache

PROMPT = 40
SOME = kv.Eviction("observed", 12, sinks=2, recent=4)


def ids(tokens: int = PROMPT, batch: int = 2) -> Tensor:
    dice = torch.Generator().manual_seed(tokens)
    return torch.randint(0, SIZES["vocabulary"], (batch, tokens), generator=dice)


def test_as_if_later_tokens_could_not_see_what_was_dropped(monkeypatch: Any) -> None:
    """Every later token, in every layer, against one pass under a mask of the kept keys."""
    model = language_model().double()
    text = ids(PROMPT + 5)
    cache = model.new_cache(evict=SOME)
    with torch.no_grad():
        found = [model(text[:, :PROMPT], cache=cache)[:, -1:]]
        assert cache.reach(1) == 13 and cache.length == PROMPT
        for n in range(PROMPT, PROMPT + 5):
            found.append(model(text[:, n : n + 1], cache=cache))
    attend, layers = multi_head.attend, iter(cache.layers)

    def masked(q: Tensor, k: Tensor, v: Tensor, *, mask: Any, **options: Any) -> Any:
        layer = next(layers)
        assert isinstance(layer, EvictingCache) and layer.kept is not None
        total = q.shape[-2]
        seen = torch.ones(total, total, dtype=torch.bool).tril().expand(2, k.shape[1], -1, -1)
        kept = torch.zeros(2, k.shape[1], PROMPT, dtype=torch.bool).scatter(-1, layer.kept, True)
        seen = seen.clone()
        seen[:, :, PROMPT:, :PROMPT] &= kept[:, :, None]
        group = q.shape[1] // k.shape[1]
        return attend(q, k, v, mask=seen.repeat_interleave(group, 1), **options)

    monkeypatch.setattr(multi_head, "attend", masked)
    with torch.no_grad():
        right = model(text)[:, PROMPT - 1 :]
    torch.testing.assert_close(torch.cat(found, 1), right, rtol=1e-9, atol=1e-10)


def test_a_budget_for_all_changes_nothing() -> None:
    model = language_model()
    text = ids()
    plain = model.generate(text, tokens=8)
    for budget in (PROMPT, 1.0):
        evict = kv.Eviction("observed", budget, 2, 4)
        assert torch.equal(model.generate(text, tokens=8, evict=evict), plain)
    assert torch.equal(model.generate(text[0], tokens=8, evict=kv.Eviction()), plain[0])


@pytest.mark.parametrize("method", kv.METHODS)
def test_text_goes_on_after_every_eviction(method: str) -> None:
    model, text = language_model(), ids(90)
    evict = kv.Eviction(method, 70, sinks=2, recent=4)
    assert model.generate(text, tokens=4, evict=evict).shape == (2, 94)


def test_text_may_go_on_later_and_with_several_tokens_at_once() -> None:
    model, text = language_model().double(), ids(PROMPT + 6)
    with torch.no_grad():
        step, at_once = model.new_cache(evict=SOME), model.new_cache(evict=SOME)
        model(text[:, :PROMPT], cache=step), model(text[:, :PROMPT], cache=at_once)
        single = [model(text[:, n : n + 1], cache=step) for n in range(PROMPT, PROMPT + 6)]
        together = model(text[:, PROMPT:], cache=at_once)
    torch.testing.assert_close(together, torch.cat(single, 1), rtol=1e-9, atol=1e-10)
    assert step.length == at_once.length == PROMPT + 6


def test_a_layer_by_itself() -> None:
    layer = regard.nn.MultiHeadAttention(16, 4, kv_heads=2)
    cache, x = EvictingCache(SOME), torch.randn(3, PROMPT, 16)
    a = layer.look(x, mask=regard.Causal(), cache=cache)
    assert cache.kept is not None and torch.equal(cache.kept, SOME.keep(a, PROMPT))
    assert layer(x[:, :1], mask=regard.Causal(), cache=cache).shape == (3, 1, 16)
    assert (cache.length, cache.reach(0)) == (PROMPT + 1, 13)


def test_what_eviction_cannot_do_is_refused() -> None:
    model, text = language_model(), ids()
    with pytest.raises(InputError, match="give one of them"):
        model.generate(text, evict=SOME, cache=model.new_cache())
    with pytest.raises(InputError, match="attention_mask beside an evicting cache"):
        model.generate(text, evict=SOME, attention_mask=torch.ones_like(text))
    for options, word in (({"window": 8}, "window of 8"), ({"positions": "alibi"}, "ALiBi")):
        with pytest.raises(InputError, match=word):
            language_model(**options).generate(text, evict=SOME)
