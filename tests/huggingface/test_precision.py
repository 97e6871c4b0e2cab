"""Low precision: regard loses no more than eager does in the same dtype."""

from __future__ import annotations

import copy

import pytest
import torch

from huggingface.zoo import inputs_of, model_of
from regard.huggingface import using
from regard.testing.budget import FACTOR


@pytest.mark.parametrize("name", ["llama", "gemma2", "t5"])
@torch.no_grad()
def test_bfloat16_loses_no_more_than_eager(name: str) -> None:
    model = copy.deepcopy(model_of(name)).bfloat16()
    inputs = inputs_of("seq2seq" if name == "t5" else "decoder")
    eager = model(**inputs).logits.double()
    with using(model):
        found = model(**inputs).logits.double()
    exact = copy.deepcopy(model).float()(**inputs).logits.double()
    lost = (eager - exact).abs().max()
    assert lost > 0
    assert (found - exact).abs().max() <= FACTOR * lost


@torch.no_grad()
def test_autocast_is_followed() -> None:
    model, inputs = model_of("llama"), inputs_of("decoder")
    exact = model(**inputs).logits
    with torch.autocast("cpu", torch.bfloat16):
        eager = model(**inputs).logits
        with using(model):
            found = model(**inputs, output_attentions=True)
    assert found.attentions[0].output.dtype == torch.bfloat16
    lost = (eager.float() - exact).abs().max()
    assert (found.logits.float() - exact).abs().max() <= FACTOR * lost
