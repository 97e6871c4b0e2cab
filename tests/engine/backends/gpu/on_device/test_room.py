"""Half precision under masks and biases that bring something for every tile: there is room."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import SUMMARIES, TOKENS, answers, tensors

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

RULES = ["table", "tables", "flags", "documents", "two spans", "rule", "bias", "all"]


def by_squares(b: Any, h: Any, i: Any, j: Any) -> Any:
    """All, none or some of a square of 128 × 128; everybody sees the first keys."""
    kind = (i // 128 + 2 * (j // 128) + b + h) % 3
    return (j < 9) | (kind == 0) | ((kind == 1) & ((i + j) % 3 == 0))


def rules(name: str, dtype: torch.dtype) -> dict[str, Any]:
    """Options of `attend`, for a batch of two with four heads."""
    dice = torch.Generator("cuda").manual_seed(1)

    def some(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=dice, device="cuda") > 0.3

    flags = some(2, TOKENS)
    ids = torch.arange(TOKENS, device="cuda").div(50, rounding_mode="floor").expand(2, -1)
    bias = torch.randn(2, 4, TOKENS, TOKENS, generator=dice, device="cuda")
    padding, documents = regard.Padding(flags), regard.Documents(ids)
    everything = regard.Causal() & documents & padding & some(1, 1, TOKENS, TOKENS)
    return {
        "table": {"mask": some(1, 1, TOKENS, TOKENS)},
        "tables": {"mask": some(2, 4, TOKENS, TOKENS)},
        "flags": {"mask": padding},
        "documents": {"mask": regard.Causal() & documents & padding},
        "two spans": {"mask": (regard.Causal() | regard.Prefix(7)) & documents & padding},
        "rule": {"mask": regard.Rule(by_squares), "bias": bias.to(dtype)},
        "bias": {"bias": bias},
        "all": {"mask": everything, "bias": bias.to(dtype)},
    }[name]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [64, 80, 96, 100, 128, 256])
@pytest.mark.parametrize("rule", RULES)
def test_every_question_is_served(rule: str, dim: int, dtype: torch.dtype) -> None:
    given, options = tensors(dim=dim, dtype=dtype), rules(rule, dtype)
    asked = SUMMARIES["everything"]
    found = regard.attend(*given, **options, summaries=asked, implementation="triton")
    right = regard.attend(*(t.float() for t in given), **options, implementation="dense")
    for name in ("output", "lse"):
        torch.testing.assert_close(
            getattr(found, name).float(), getattr(right, name), rtol=0.02, atol=0.02
        )
    torch.testing.assert_close(found.received(), right.received(), rtol=0.02, atol=0.05)
    assert not any(part.isnan().any() for part in answers(found, asked))


@pytest.mark.parametrize("dim", [80, 128])
@pytest.mark.parametrize("rule", [name for name in RULES if name != "bias"])
def test_gradients_are_served(rule: str, dim: int) -> None:
    given, options = tensors(dim=dim), rules(rule, torch.bfloat16)
    learned = []
    for implementation, dtype in (("triton", torch.bfloat16), ("dense", torch.float32)):
        leaves = [t.detach().to(dtype).requires_grad_() for t in given]
        a = regard.attend(*leaves, **options, implementation=implementation)
        loss = a.output.float().square().sum() + a.entropy().sum()
        learned.append(torch.autograd.grad(loss, leaves))
    for found, right in zip(*learned, strict=True):
        scale = float(right.abs().max())
        torch.testing.assert_close(found.float(), right, rtol=0.05, atol=0.03 * scale)
