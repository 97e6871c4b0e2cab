"""w_q and w_k: where they are, which rows belong to which head, and their gradient norms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import regard
from monitor.steps import batch
from recorder.models import Stack, tiny
from regard.monitor.gradients import (
    GradientRows,
    Projection,
    Projections,
    find_projections,
    find_qk_norm,
    gradient_rows,
    squares_of_gradient,
)


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
    assert "32 and 32 rows, which 3 heads of 8" in find_projections(layer, 3, 8)

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


# ── rows of a head ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_belong_to_heads(axis):
    """Rows without a head do not count; a gradient of half precision is summed in full."""
    weight = torch.nn.Parameter(torch.zeros(6, 5) if axis == 0 else torch.zeros(5, 6))
    gradient = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)) * 300
    gradient = gradient.to(torch.float16).float()
    weight.data = weight.data.half()
    weight.grad = (gradient if axis == 0 else gradient.T).half()
    owner = torch.tensor([0, 0, -1, 1, 1, -1])
    found = squares_of_gradient(Projection(weight, None, axis, owner, 2), 1)
    wanted = gradient.double().square().sum(1)
    wanted = torch.stack([wanted[:2].sum(), wanted[3:5].sum()])
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


def test_each_rank_has_its_share():
    weight = torch.nn.Parameter(torch.zeros(4, 3))
    weight.grad = torch.ones(4, 3)
    projection = Projection(weight, None, 0, torch.tensor([0, 0, 1, 1]), 2)
    assert squares_of_gradient(projection, 4).tolist() == pytest.approx([1.5, 1.5])


def test_where_rows_belong_is_found_once_for_all_steps():
    """On a GPU a copy from the host would wait for everything before it."""
    model = _model()
    with regard.Monitor(model) as monitor:
        slots = []
        for seed in (0, 1):
            model(batch(seed)).square().mean().backward()
            monitor.step()
            slots.append(monitor._collector._rows._slots)
        assert slots[0] is slots[1]
        first = monitor.latest["grad_w_k"]
        model.layers[1].w_k.weight.requires_grad_(False)
        model.zero_grad()
        model(batch(1)).square().mean().backward()
        frozen = monitor.step()["grad_w_k"]
    assert np.isnan(frozen[1]).all() and not np.isnan(frozen[0]).any() and first.shape == (2, 4)


def test_ranks_that_hold_other_shares_of_each_weight():
    """One gradient is whole on both ranks, the other sharded over them."""
    rows = []
    for shards in (1, 2):
        weight = torch.nn.Parameter(torch.zeros(4, 3))
        weight.grad = torch.ones(4, 3)
        owner = torch.tensor([0, 0, 1, 1])
        rows.append(gradient_rows(Projection(weight, None, 0, owner, 2))._replace(shards=shards))
    like = torch.zeros(0, dtype=torch.float64)
    found = GradientRows().squares({(0, 0): rows[0], (0, 1): rows[1]}, [2], 2, like)
    assert found.flatten().tolist() == pytest.approx([3.0, 3.0, 6.0, 6.0])


# ── a loss that is scaled up ──────────────────────────────────────────────────────────────────────


def _model():
    torch.manual_seed(0)
    return Stack()


@pytest.fixture
def right():
    """Of the loss itself."""
    model = _model()
    with regard.Monitor(model) as monitor:
        model(batch(tokens=12)).square().mean().backward()
        return monitor.step()


def _norms_are(sample, right, factor=1.0):
    for name in ("grad_w_q", "grad_w_k"):
        np.testing.assert_allclose(sample[name], factor * right[name], rtol=1e-4, err_msg=name)


def test_the_optimiser_closes_a_step_when_gradients_are_unscaled(right):
    """A scaler unscales before it lets the optimiser step, so nothing has to be called."""
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, optimizer=optimizer) as monitor:
        scaler.scale(model(batch(tokens=12)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    _norms_are(monitor.latest, right)


def test_a_step_that_is_closed_by_hand_needs_unscale(right):
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model) as monitor:
        scaler.scale(model(batch(tokens=12)).square().mean()).backward()
        scaler.unscale_(optimizer)
        sample = monitor.step()
        scaler.step(optimizer)
        optimizer.zero_grad()
    _norms_are(sample, right)
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    with regard.Monitor(model) as monitor:
        scaler.scale(model(batch(tokens=12)).square().mean()).backward()
        _norms_are(monitor.step(), right, 1024.0)  # without it: of what was differentiated


def test_half_precision_with_a_scaler(right):
    """In fp16 under autocast, over two forwards whose gradients come together."""
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=256.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, optimizer=optimizer) as monitor:
        for _ in range(2):
            with torch.autocast("cpu", torch.float16):
                loss = model(batch(tokens=12)).float().square().mean() / 2
            scaler.scale(loss).backward()
        scaler.step(optimizer)
    for name, value in right.values.items():
        np.testing.assert_allclose(monitor.latest[name], value, rtol=0.02, err_msg=name)


def test_a_step_that_the_scaler_skips_is_not_closed(right):
    """Its forwards count to the next step that is made; gradients are those of that one."""
    model, scaler = _model(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with regard.Monitor(model, optimizer=optimizer) as monitor:
        for factor in (float("inf"), 1.0):
            scaler.scale(model(batch(tokens=12)).square().mean() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert monitor.latest.step == 0
    _norms_are(monitor.latest, right)
    np.testing.assert_allclose(monitor.latest["peak"], right["peak"], rtol=1e-5)
