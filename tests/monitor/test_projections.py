"""Where w_q and w_k are, and which rows are whose."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from recorder.models import tiny
from regard.monitor.gradients import squares_of_gradient
from regard.monitor.projections import Projections, find_projections, find_qk_norm


def _attention(family, name, **options):
    model = tiny(family, **options)
    (found,) = [m for m in model.modules() if type(m).__name__ == name][:1]
    return found


def _rows(projection, head):
    at = (projection.owner == head).nonzero().flatten()
    return at.min().item(), at.max().item() + 1, len(at)


def test_regards_own():
    layer = regard.nn.MultiHeadAttention(32, 4, kv_heads=2)
    found = find_projections(layer, 4, 8)
    assert isinstance(found, Projections)
    assert found.query.weight is layer.w_q.weight and found.key.bias is layer.w_k.bias
    assert _rows(found.query, 3) == (24, 32, 8) and _rows(found.key, 1) == (8, 16, 8)
    assert (found.query.heads, found.key.heads) == (4, 2)


@pytest.mark.parametrize(
    ("family", "kind", "key_heads"),
    [("llama", "LlamaAttention", 2), ("bert", "BertSelfAttention", 4), ("t5", "T5Attention", 4)],
)
def test_apart(family, kind, key_heads):
    options = {"num_key_value_heads": 2} if family == "llama" else {}
    dim = 64 if family == "t5" else 8
    found = find_projections(_attention(family, kind, **options), 4, dim)
    assert isinstance(found, Projections) and found.key.heads == key_heads


def test_stacked_and_transposed():
    module = _attention("gpt2", "GPT2Attention")
    found = find_projections(module, 4, 8)
    assert found.query.axis == 1 and found.query.weight is module.c_attn.weight
    assert _rows(found.query, 1) == (8, 16, 8) and _rows(found.key, 1) == (40, 48, 8)


def test_head_after_head():
    found = find_projections(_attention("gpt_neox", "GPTNeoXAttention"), 4, 8)
    assert _rows(found.query, 1) == (24, 32, 8) and _rows(found.key, 1) == (32, 40, 8)


def test_stacked_with_shared_keys():
    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv_proj = nn.Linear(32, 64, bias=False)  # 4 heads, 2 of keys, 2 of values

    found = find_projections(Fused(), 4, 8)
    assert found.key.heads == 2 and _rows(found.key, 0) == (32, 40, 8)
    assert (found.query.owner[32:] == -1).all()


def test_reasons():
    assert "no projection of a name known here" in find_projections(nn.Linear(4, 4), 2, 2)
    layer = regard.nn.MultiHeadAttention(32, 4)
    assert "32 and 32 rows; 3 heads of 8" in find_projections(layer, 3, 8)

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(32, 50)

    assert "qkv has 50 rows" in find_projections(Odd(), 4, 8)


def test_norms():
    assert find_qk_norm(regard.nn.MultiHeadAttention(32, 4)) is None
    assert find_qk_norm(regard.nn.MultiHeadAttention(32, 4, qk_norm=True)) == "norm_q"
    model = tiny("qwen3", head_dim=8, num_key_value_heads=2)
    (layer,) = [m for m in model.modules() if type(m).__name__ == "Qwen3Attention"][:1]
    assert find_qk_norm(layer) == "q_norm"


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "llama"])
def test_squares_are_those_of_the_gradient(family):
    """Whatever the layout: by what a change of one head's rows changes."""
    kinds = {"gpt2": "GPT2Attention", "gpt_neox": "GPTNeoXAttention", "llama": "LlamaAttention"}
    module = _attention(family, kinds[family])
    found = find_projections(module, 4, 8)
    for one in (found.query, found.key):
        one.weight.grad = torch.randn_like(one.weight)
        gradient = one.weight.grad if one.axis == 0 else one.weight.grad.T
        right = torch.stack([gradient[one.owner == h].square().sum() for h in range(one.heads)])
        torch.testing.assert_close(squares_of_gradient(one, 1).float(), right)
        # two ranks that hold the same gradient have half of it each
        torch.testing.assert_close(squares_of_gradient(one, 2) * 2, squares_of_gradient(one, 1))
