"""Code of transformers that was written for eager's tensors runs on what `out.attentions` holds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import EsmConfig, EsmModel, LlamaConfig, LlamaForCausalLM

import regard
from regard.engine import attention as module
from regard.errors import TooLargeError


def esm() -> EsmModel:
    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=33, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, pad_token_id=1, mask_token_id=32, position_embedding_type="rotary",
    )  # fmt: skip
    return EsmModel(config, add_pooling_layer=False).eval()


def proteins() -> tuple[Tensor, Tensor]:
    """Two of them, the second padded."""
    ids = torch.randint(4, 24, (2, 14), generator=torch.Generator().manual_seed(1))
    ids[:, 0], ids[0, -1], ids[1, -4], ids[1, -3:] = 0, 2, 2, 1
    return ids, (ids != 1).long()


def test_contacts_of_a_protein() -> None:
    """Stacked, masked, made symmetric, corrected by sums of rows and columns."""
    model, found = esm(), {}
    for name in ("eager", "regard"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found[name] = model.predict_contacts(*proteins())
    torch.testing.assert_close(found["regard"], found["eager"], rtol=1e-5, atol=1e-5)


def test_contacts_have_gradients() -> None:
    model, found = esm(), {}
    for name in ("eager", "regard"):
        model.set_attn_implementation(name)
        model.zero_grad()
        model.predict_contacts(*proteins()).square().sum().backward()
        found[name] = model.encoder.layer[0].attention.self.query.weight.grad.clone()
    torch.testing.assert_close(found["regard"], found["eager"], rtol=1e-4, atol=1e-6)


def test_a_matrix_too_large_to_stack_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_DENSE", 1)
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, attn_implementation="regard",
    )  # fmt: skip
    with torch.no_grad():
        out = LlamaForCausalLM(config)(torch.arange(9)[None], output_attentions=True)
    assert all(isinstance(one, regard.Attention) for one in out.attentions)
    with pytest.raises(TooLargeError, match=r"^stack needs the dense matrix \(1, 4, 9, 9\)"):
        torch.stack(out.attentions)
    assert out.attentions[0].received().shape == (1, 4, 9)
