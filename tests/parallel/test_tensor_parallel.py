"""regard.nn under torch's own tensor parallelism: the same numbers as on one rank."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import regard
from installed import needs
from parallel.world import run
from regard.nn import (
    LanguageModel,
    LanguageModelConfig,
    MultiHeadAttention,
    Rotary,
)

HEADS_APART: dict[str, ParallelStyle] = {
    "w_q": ColwiseParallel(), "w_k": ColwiseParallel(), "w_v": ColwiseParallel(),
    "w_o": RowwiseParallel(),
}  # fmt: skip
# what is normalised per head is split by heads: axis 1 of (batch, heads, tokens, width)
NORMS = {
    name: SequenceParallel(sequence_dim=1, use_local_output=True) for name in ("norm_q", "norm_k")
}
HIDDEN_APART: dict[str, ParallelStyle] = {
    "w_gate": ColwiseParallel(), "w_in": ColwiseParallel(), "w_out": RowwiseParallel(),
}  # fmt: skip


def _below(name: str, plan: dict[str, ParallelStyle], model: nn.Module) -> dict[str, ParallelStyle]:
    """The plan for a part of a model, as far as it has such layers."""
    part = model.get_submodule(name)
    return {f"{name}.{key}": style for key, style in plan.items() if hasattr(part, key)}


def _compare(model: nn.Module, plan: dict[str, ParallelStyle], *given: Any, **options: Any) -> None:
    """Output and every gradient of the split model are those of the whole one."""
    model = model.double()
    alone = deepcopy(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    split = parallelize_module(model, mesh, plan)
    x = given[0].double().requires_grad_() if given[0].is_floating_point() else given[0]
    twin = x.detach().clone().requires_grad_(x.requires_grad)
    right, found = alone(x, *given[1:], **options), split(twin, *given[1:], **options)
    torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-10)
    weight = torch.linspace(0, 1, right.numel(), dtype=right.dtype).reshape(right.shape)
    (right * weight).sum().backward()
    (found * weight).sum().backward()
    if x.requires_grad:
        torch.testing.assert_close(twin.grad, x.grad, rtol=1e-9, atol=1e-9)
    for (name, a), (_, b) in zip(alone.named_parameters(), split.named_parameters(), strict=True):
        grad = b.grad.full_tensor() if isinstance(b.grad, DTensor) else b.grad
        torch.testing.assert_close(
            grad, a.grad, rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )


# ── one layer ────────────────────────────────────────────────────────────────────────────────

LAYERS: dict[str, dict[str, Any]] = {
    "one key head per head": {"num_heads": 4},
    "grouped heads": {"num_heads": 8, "kv_heads": 4},
    "wide values, no bias": {"num_heads": 4, "value_dim": 6, "bias": False},
    "rotary": {"num_heads": 4, "kv_heads": 2, "rotary": Rotary(4)},
    "normalised": {"num_heads": 4, "kv_heads": 2, "qk_norm": True},
}


def _layer(name: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, head_dim=4, **LAYERS[name])
    plan = HEADS_APART | (NORMS if "qk_norm" in LAYERS[name] else {})
    _compare(layer, plan, torch.randn(2, 7, 16), mask=regard.Causal())
    if "rotary" not in LAYERS[name]:
        layer = MultiHeadAttention(16, head_dim=4, context_dim=12, **LAYERS[name])
        _compare(layer, plan, torch.randn(2, 7, 16), torch.randn(2, 5, 12).double())


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_multi_head_attention(name: str, world: int) -> None:
    run(world, _layer, name)


def _questions() -> None:
    """What a split layer's `look` says is about its own heads."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4, kv_heads=2).double()
    x = torch.randn(2, 7, 16).double()
    right = layer.look(x, mask=regard.Causal())
    mine = slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2)
    split = parallelize_module(layer, init_device_mesh("cpu", (2,)), HEADS_APART)
    found = split.look(x, mask=regard.Causal())
    assert found.shape == (2, 2, 7, 7)
    torch.testing.assert_close(found.entropy(), right.entropy()[:, mine])
    torch.testing.assert_close(found.received(), right.received()[:, mine])
    torch.testing.assert_close(found[..., 3, :], right[:, mine, 3, :])


def test_a_split_layer_answers_for_its_heads() -> None:
    run(2, _questions)


def _as_dtensors() -> None:
    """Projections that hand out DTensors: attention is one over DTensors then."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4, kv_heads=2)
    apart = ColwiseParallel(use_local_output=False)
    plan = {"w_q": apart, "w_k": apart, "w_v": apart, "w_o": RowwiseParallel()}
    _compare(layer, plan, torch.randn(2, 7, 16), mask=regard.Causal())


def test_projections_that_hand_out_dtensors() -> None:
    needs("torch", "2.11", "attention over DTensors is served")
    run(2, _as_dtensors)


# ── blocks and models ────────────────────────────────────────────────────────────────────────


def _model() -> tuple[LanguageModel, dict[str, ParallelStyle]]:
    torch.manual_seed(0)
    config = LanguageModelConfig(dim=16, heads=4, kv_heads=2, vocabulary=11, layers=2)
    model = LanguageModel(config)
    plan: dict[str, ParallelStyle] = {}
    for name, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            plan |= _below(name, HEADS_APART, model)
        if name.endswith("feed_forward"):
            plan |= _below(name, HIDDEN_APART, model)
    assert len(plan) == 14
    return model, plan


def _language_model() -> None:
    model, plan = _model()
    _compare(model, plan, torch.arange(10).reshape(2, 5))


def _generation() -> tuple[Tensor, Tensor]:
    model, plan = _model()
    ids = torch.arange(5)[None]
    right = regard.nn.generate(model, ids, tokens=6)
    split = parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    return right, regard.nn.generate(split, ids, tokens=6)


def test_a_language_model() -> None:
    run(2, _language_model)


def test_generation_from_caches_of_some_heads() -> None:
    for right, found in run(2, _generation):
        assert torch.equal(found, right)
