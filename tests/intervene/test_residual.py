"""Every token's vectors: what is added up is what the model has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recorder.models import tiny, tokens
from regard.errors import InputError, ShapeError, UnavailableError
from regard.intervene import knock_out, observe_residual

SMALL: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 8},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2},
    "bert": {},
    "electra": {"embedding_size": 32},
}


@pytest.mark.parametrize("family", SMALL)
def test_hidden_states_are_the_model_s(family: str) -> None:
    model, ids = tiny(family, **SMALL[family]), tokens(12)
    seen = observe_residual(model, ids)
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states
    norm = 0 if family in ("bert", "electra") else 1  # decoders norm the last one
    for mine, theirs in zip(seen.hidden, states[: len(states) - norm], strict=False):
        np.testing.assert_allclose(mine, theirs[0].numpy(), atol=1e-5)
    assert seen.hidden.shape == (3, 12, 32)
    sums = seen.hidden[:-1] + seen.attention + seen.mlp
    np.testing.assert_allclose(sums, seen.hidden[1:], atol=1e-5)
    assert np.abs(seen.attention).max() > 0
    assert seen.weights.size == seen.values.size == seen.w_o.size == 0


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_the_parts_of_a_row_make_its_attention(family: str) -> None:
    seen = observe_residual(tiny(family, **SMALL[family]), tokens(12), rows=[5, 9])
    for layer in range(2):
        weights, values, w_o = seen.parts(layer, 9)
        assert (weights.shape, values.shape, w_o.shape) == ((4, 12), (4, 12, 8), (4, 8, 32))
        made = np.einsum("hk,hkd,hdo->o", weights, values, w_o)
        np.testing.assert_allclose(made, seen.attention[layer][9], atol=1e-6)
    with pytest.raises(InputError, match=r"observe_residual\(…, rows=\[3\]\)"):
        seen.parts(0, 3)


def test_what_mlps_add_is_theirs_and_a_knocked_out_layer_adds_nothing() -> None:
    model, ids = tiny("llama"), tokens(12)
    added = []
    handle = model.model.layers[1].mlp.register_forward_hook(lambda *given: added.append(given[2]))
    seen = observe_residual(model, ids)
    handle.remove()
    np.testing.assert_allclose(seen.mlp[1], added[0][0].detach().numpy(), atol=1e-6)
    with knock_out(model, "L1"):
        seen = observe_residual(model, ids)
    assert np.abs(seen.attention[1]).max() < 1e-6 and np.abs(seen.attention[0]).max() > 1e-3


@pytest.mark.parametrize(
    ("family", "options", "said"),
    [
        ("olmo2", {}, "layer 0 is no sum"),
        ("gpt_neox", {}, "layer 0 is no sum"),
        ("cohere", {"num_key_value_heads": 2}, "no stack of layers like llama's or bert's"),
        ("t5", {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}, "no stack"),
    ],
)
def test_other_families_are_refused_and_nothing_stays_behind(
    family: str, options: dict[str, Any], said: str
) -> None:
    model = tiny(family, **options)
    more = {"rows": [3]} if family == "gpt_neox" else {}
    with pytest.raises(UnavailableError, match=said):
        observe_residual(model, tokens(5), **more)
    bert = tiny("bert")
    with pytest.raises(ShapeError, match="give one prompt"):
        observe_residual(bert, tokens(5, batch=2))
    before = bert.config._attn_implementation
    observe_residual(bert, tokens(4))
    assert bert.config._attn_implementation == before
    for one in (model, bert):
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in one.modules())
