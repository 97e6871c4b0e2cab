"""The host does not wait for the GPU within a monitored step, and a model writes as on sdpa."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from recorder.models import tiny, tokens

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def _model(**options: Any) -> Any:
    shape = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
    return tiny("llama", **shape | options).to("cuda", torch.bfloat16)


@pytest.mark.parametrize("name", ["sdpa", "regard"])
def test_a_monitored_step_does_not_wait(name: str) -> None:
    model, ids = _model(attn_implementation=name), tokens(64, 2).to("cuda")
    with regard.Monitor(model) as monitor:
        for _ in range(2):  # kernels are compiled, kinds of calls are settled
            model(ids, labels=ids).loss.backward()
            monitor.step()
        torch.cuda.set_sync_debug_mode("error")
        try:
            loss = model(ids, labels=ids).loss
            loss.backward()
            monitor.add_loss(loss)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        sample = monitor.step()
        assert sample is not None and sample.loss == loss.item()


def test_losses_and_gradients_have_the_bits_of_sdpa() -> None:
    model, ids = _model(), tokens(64, 2).to("cuda")
    found = {}
    for name in ("sdpa", "regard"):
        model.set_attn_implementation(name)
        model.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        found[name] = loss, model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    assert torch.equal(found["sdpa"][0], found["regard"][0])
    torch.testing.assert_close(found["sdpa"][1], found["regard"][1])


def test_tokens_are_those_of_sdpa() -> None:
    model, ids = _model(), tokens(64, 1).to("cuda")
    written, logits = {}, {}
    for name in ("sdpa", "regard"):
        model.set_attn_implementation(name)
        found = model.generate(
            ids, max_new_tokens=20, do_sample=False, return_dict_in_generate=True,
            output_logits=True,
        )  # fmt: skip
        written[name], logits[name] = found.sequences, torch.stack(found.logits)
    assert torch.equal(written["sdpa"], written["regard"])
    assert torch.equal(logits["sdpa"], logits["regard"])
