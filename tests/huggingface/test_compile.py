"""torch.compile takes a whole model, masks and all, as one graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import StaticCache

import regard
from huggingface.zoo import inputs_of, model_of
from regard.huggingface import using


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Leave no compiled code behind."""
    yield
    torch._dynamo.reset()


def compiled(model: Any) -> Any:
    """One graph or an error; what the graph computes matters here, not how fast."""
    return torch.compile(model, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("name", ["llama", "mistral"])
@torch.no_grad()
def test_a_padded_prefill_is_one_graph(name: str) -> None:
    model, inputs = model_of(name), inputs_of("decoder", "left")
    real = inputs["attention_mask"].bool()
    with using(model):
        wanted = model(**inputs).logits
        found = compiled(model)(**inputs).logits
    torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=5e-5)


@torch.no_grad()
def test_a_step_behind_a_static_cache_is_one_graph() -> None:
    model, ids = model_of("llama"), inputs_of("decoder")["input_ids"]
    wanted = model(ids).logits
    with using(model):
        cache, step = StaticCache(config=model.config, max_cache_len=16), compiled(model)
        model(ids[:, :8], past_key_values=cache)
        found = [step(ids[:, at : at + 1], past_key_values=cache).logits for at in (8, 9, 10)]
    torch.testing.assert_close(torch.cat(found, 1), wanted[:, 8:], rtol=0, atol=5e-5)


@torch.no_grad()
def test_a_compiled_model_hands_out_attentions() -> None:
    model, inputs = model_of("llama"), inputs_of("decoder")
    with using(model):
        wanted = model(**inputs, output_attentions=True).attentions
        found = torch.compile(model, backend="aot_eager")(**inputs, output_attentions=True)
    for one, other in zip(found.attentions, wanted, strict=True):
        assert isinstance(one, regard.Attention)
        assert one.shape == other.shape
        torch.testing.assert_close(one.lse, other.lse, rtol=0, atol=1e-5)
