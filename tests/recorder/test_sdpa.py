"""Modules of torch's own are seen, with and without their fast paths."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
import torch
from torch import nn

import regard
from recorder.truth import agrees


@pytest.mark.parametrize("grad", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention(need_weights: bool, grad: type[AbstractContextManager[None]]) -> None:
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 20, 32)
    absent = torch.arange(20).expand(2, 20) >= torch.tensor([[20], [13]])
    _, truth = model(x, x, x, absent, average_attn_weights=False)
    with grad(), regard.record(model) as rec:
        _, weights = model(x, x, x, absent, need_weights=need_weights)
    assert (weights is not None) == need_weights
    for number, count in enumerate((20, 13)):  # padding is no row
        right = truth[number, 1, :count, :count].detach()
        agrees(rec.recording.prompts[number]["L0H1"], right)


@pytest.mark.parametrize("nested", [True, False])
def test_an_encoder_of_torch(nested: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    model, x = (
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval(),
        torch.randn(2, 9, 32),
    )
    with torch.no_grad():
        plain = model(x)
        with regard.record(model) as rec:
            found = model(x)
    torch.testing.assert_close(found, plain)  # torch's fast path rounds in another order
    assert rec.stacks == {"": (2, 4)}
    assert rec["L1H0"].place.name == "layers.1.self_attn"


def test_a_decoder_of_torch() -> None:
    layer = nn.TransformerDecoderLayer(32, 4, 48, batch_first=True)
    model = nn.TransformerDecoder(layer, 2).eval()
    with torch.no_grad(), regard.record(model) as rec:
        model(torch.randn(2, 7, 32), torch.randn(2, 20, 32))
    assert rec["L1H0"].shape == (7, 7)
    assert rec["cross.L1H0"].shape == (7, 20)


def test_training_is_left_alone() -> None:
    model = nn.MultiheadAttention(32, 4, dropout=0.5, batch_first=True)
    x = torch.randn(1, 6, 32)
    torch.manual_seed(1)
    plain, _ = model(x, x, x)
    torch.manual_seed(1)
    with regard.record(model):
        found, _ = model(x, x, x)
    assert torch.equal(found, plain)
    found.sum().backward()
