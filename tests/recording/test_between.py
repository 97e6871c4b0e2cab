"""regard.divergence between recorded heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import GptOssConfig, GptOssForCausalLM

import regard
from regard.errors import InputError, ShapeError
from regard.recording import Recording


@pytest.fixture(scope="module")
def recorded() -> Recording:
    """Layers with a sink, a sliding window and grouped heads."""
    torch.manual_seed(0)
    config = GptOssConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, intermediate_size=16, vocab_size=50, num_local_experts=2, sliding_window=9,
        num_experts_per_tok=1,
    )  # fmt: skip
    model = GptOssForCausalLM(config).eval()
    for name, tensor in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(tensor)
    with torch.no_grad(), regard.record(model) as rec:
        model(torch.randint(0, 50, (1, 40)))
    return rec


def _weights(head: Any) -> Any:
    """With the sink as one more key."""
    return np.c_[np.asarray(head, np.float64), head.sink_mass()]


def test_one_head_and_another(recorded: Recording) -> None:
    narrow, wide = recorded["L0H1"], recorded["L1H2"]
    p, q = _weights(narrow), _weights(wide)
    expected = np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q.clip(1e-300)), 0).sum(-1)
    np.testing.assert_allclose(regard.divergence(narrow, wide), expected, rtol=1e-4, atol=1e-6)
    tv = np.abs(p - q).sum(-1) / 2
    np.testing.assert_allclose(regard.divergence(narrow, wide, how="tv"), tv, atol=1e-6)
    assert np.isinf(regard.divergence(wide, narrow)[20:]).all()  # beyond the window
    assert (regard.divergence(wide, wide) == 0).all()


def test_several_heads_as_one_side(recorded: Recording) -> None:
    teacher = [recorded[0, h] for h in range(4)]
    p = sum(np.asarray(head, np.float64) for head in teacher)
    p = p / p.sum(-1, keepdims=True)
    q = np.asarray(recorded["L1H0"], np.float64)
    q = q / q.sum(-1, keepdims=True)
    found = regard.divergence(teacher, recorded["L1H0"], heads="sum", how="tv", queries=6)
    np.testing.assert_allclose(found, np.abs(p - q).sum(-1)[None, -6:] / 2, atol=1e-6)


def test_what_is_refused(recorded: Recording) -> None:
    other, layer = torch.randn(1, 2, 8, 4), regard.nn.SelfAttention(4)
    with pytest.raises(InputError, match="recorded ones"):
        regard.divergence(recorded["L0H0"], regard.replay(other, other))
    with torch.no_grad(), regard.record(layer) as shorter:
        layer(torch.randn(1, 8, 4))
    with pytest.raises(ShapeError, match="regard diff"):
        regard.divergence(recorded["L0H0"], shorter[0, 0])
