"""Caches: what a layer says of a step stays true when the cache has moved on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, StaticCache

from huggingface.zoo import VOCABULARY, model_of
from regard.huggingface import using

IDS = torch.randint(4, VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(2))
CHUNKS = (5, 3, 1, 1, 3)  # tokens at a time
MODELS = ["llama", "mistral", "gemma3", "gpt_oss"]  # full, windowed, both, both with sinks

CACHES: dict[str, Callable[[Any], Any]] = {
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=16),
}


def in_chunks(model: Any, cache: Any, mask: Tensor | None = None) -> tuple[Tensor, list[Any]]:
    """Logits of all tokens and each chunk's attentions, given a few tokens at a time."""
    logits, layers, start = [], [], 0
    for chunk in CHUNKS:
        end = start + chunk
        past = None if mask is None else mask[:, :end]
        found = model(
            IDS[:, start:end], past_key_values=cache, attention_mask=past, output_attentions=True
        )
        logits.append(found.logits)
        layers.append(found.attentions)
        start = end
    return torch.cat(logits, 1), layers


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-5)


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_tokens_in_chunks_are_eagers_and_those_at_once(name: str, cache: str, padded: bool) -> None:
    model = model_of(name)
    mask = torch.ones_like(IDS)
    mask[0, :2] = 0
    wanted, eager = in_chunks(model, CACHES[cache](model.config), mask if padded else None)
    at_once = model(IDS, attention_mask=mask if padded else None).logits
    with using(model):
        found, layers = in_chunks(model, CACHES[cache](model.config), mask if padded else None)
    real = mask.bool() if padded else torch.ones_like(mask).bool()
    close(found[real], wanted[real])
    close(found[real], at_once[real])
    start = 0
    for chunk, one, other in zip(CHUNKS, layers, eager, strict=True):
        here = real[:, start : start + chunk]
        for layer, weights in zip(one, other, strict=True):
            keys = layer.shape[-1]
            close(layer.dense().transpose(1, 2)[here], weights[..., :keys].transpose(1, 2)[here])
            assert not weights[..., keys:].transpose(1, 2)[here].any()
        start += chunk


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_under_inference_mode_earlier_steps_keep_their_answers(name: str) -> None:
    """Tensors there do not tell that they were changed, so only copies can be right."""
    model = model_of(name)
    with torch.inference_mode():
        _, eager = in_chunks(model, StaticCache(config=model.config, max_cache_len=16))
        with using(model):
            cache = StaticCache(config=model.config, max_cache_len=16)
            _, layers = in_chunks(model, cache)
        for layer in cache.layers:
            layer.keys.zero_()
        for one, other in zip(layers, eager, strict=True):
            for layer, weights in zip(one, other, strict=True):
                close(layer.dense(), weights[..., : layer.shape[-1]])


@torch.no_grad()
def test_keys_of_a_cache_are_copied_only_for_an_attention_that_is_kept() -> None:
    model, copies = model_of("llama"), []
    cache = StaticCache(config=model.config, max_cache_len=16)
    handed = {}

    def note(module: Any, args: Any, output: Any) -> None:
        copies.append(output[1])

    with using(model) as found:
        hooks = [m.register_forward_hook(note) for m in found.seen.values()]
        model(IDS[:, :5], past_key_values=cache)
        assert copies == [None, None]
        handed = model(IDS[:, 5:6], past_key_values=cache, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    for layer, held in zip(cache.layers, handed, strict=True):
        assert held._call.key.data_ptr() != layer.keys.data_ptr()
        assert torch.equal(held._call.key, layer.keys[:, :, :6])


@torch.no_grad()
def test_slots_that_nobody_wrote_to_are_no_keys() -> None:
    """Otherwise distances would be counted from the end of an empty cache."""
    model = model_of("llama")
    with using(model):
        cache = StaticCache(config=model.config, max_cache_len=16)
        _, static = in_chunks(model, cache)
        _, dynamic = in_chunks(model, DynamicCache(config=model.config))
    for one, other in zip(static, dynamic, strict=True):
        assert one[0].shape == other[0].shape
        close(one[0].distance(), other[0].distance())
        close(one[1].entropy(), other[1].entropy())
