"""While a model writes with a cache, edges stand where they stand in the whole sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from recorder.models import Stack, tiny, tokens
from regard.intervene import Edge, knock_out
from regard.intervene.here import Here

EDGES = [
    Edge(slice(22, None), range(16, 20)),
    Edge([3, 21, 24], slice(0, 18), heads=["L1H1"]),
    Edge(25, slice(None), heads=["L0"]),
]


def without_cache(model: Any, ids: Tensor, steps: int) -> tuple[Tensor, list[Tensor]]:
    """The whole sequence anew for every token."""
    said = []
    with torch.no_grad(), knock_out(model, "L0H3", EDGES):
        for _ in range(steps):
            said.append(model(ids, use_cache=False).logits[:, -1])
            ids = torch.cat([ids, said[-1].argmax(-1, keepdim=True)], dim=1)
    return ids, said


FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 8, "num_key_value_heads": 2},
    "gemma2": {"sliding_window": 8, "num_key_value_heads": 2, "head_dim": 8},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "bos_token_id": 1, "eos_token_id": 1},
}


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_cache_changes_nothing(family: str, cache: str) -> None:
    model, ids = tiny(family, **FAMILIES[family]), tokens(20)
    expected, logits = without_cache(model, ids, 8)
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 8, "eos_token_id": None}
    options |= {"return_dict_in_generate": True, "output_logits": True, "pad_token_id": 0}
    with knock_out(model, "L0H3", EDGES):
        found = model.generate(
            ids, **options, cache_implementation=cache, disable_compile=True
        )  # fmt: skip
    whole = model.generate(ids, **options)
    assert torch.equal(found.sequences, expected)
    for mine, theirs in zip(found.logits, logits, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(whole.logits[-1], found.logits[-1], atol=1e-4)


def test_a_recording_of_what_was_written_shows_the_edge() -> None:
    model = tiny("llama")
    with knock_out(model, edges=EDGES[:1]), regard.record(model) as rec:
        model.generate(tokens(20), max_new_tokens=6, do_sample=False, eos_token_id=None)
    for head in rec.recording:
        weights = head.dense()
        assert weights.shape == (25, 25)
        assert np.all(weights[21, 16:20] > 0)
        assert not weights[22:, 16:20].any()
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_writing_from_an_encoder() -> None:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    model = tiny("t5", **sizes, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    edges = [Edge(2, [0, 3], ["cross"]), Edge(3, 1, ["decoder"])]
    with knock_out(model, edges=edges), regard.record(model) as rec:
        model.generate(tokens(9), max_new_tokens=5, min_new_tokens=5, do_sample=False)
    cross, own = rec["cross.L1H0"].dense(), rec["decoder.L1H0"].dense()
    assert np.argwhere(cross == 0).tolist() == [[2, 0], [2, 3]]
    assert [3, 1] in np.argwhere(own == 0).tolist()
    assert own[3, 0] > 0
    assert own[4, 1] > 0


def test_regard_s_own_cache() -> None:
    layer, x = regard.nn.MultiHeadAttention(32, 4).eval(), torch.randn(1, 10, 32)
    edge = Edge([4, 8], [2, 3], "L0H1")
    with torch.no_grad(), knock_out(layer, edges=edge):
        whole = layer(x, mask=regard.Causal())
        cache, parts = regard.nn.KeyValueCache(), []
        for part in (x[:, :4], x[:, 4:7], x[:, 7:8], x[:, 8:9], x[:, 9:]):
            parts.append(layer(part, mask=regard.Causal(), cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-6, rtol=1e-5)


def test_outside_the_model_nobody_is_at_work() -> None:
    with Here(Stack()) as here:
        assert here.caller() is None
