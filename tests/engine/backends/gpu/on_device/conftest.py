"""What only a GPU can show: compiled calls, captured graphs, a host that does not wait.
`make test-gpu` runs it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.plan import CANDIDATES

TOKENS, HEADS, KEY_HEADS = 330, 4, 2
# those whose rows have the same bits in any company
OURS = tuple(name for name in CANDIDATES if name in ("hopper", "triton"))
SUMMARIES = {
    "bare": (),
    "statistics": (regard.Entropy(), regard.MaxScore()),
    "everything": (
        regard.Entropy(), regard.MaxScore(), regard.Received(), regard.Pooled(64), regard.Top(8),
    ),
}  # fmt: skip


def tensors(batch: int = 2, tokens: int = TOKENS, dim: int = 64) -> list[Tensor]:
    """q, k and v with grouped heads."""
    dice = torch.Generator().manual_seed(0)
    return [
        torch.randn(batch, heads, tokens, dim, generator=dice).to("cuda", torch.bfloat16)
        for heads in (HEADS, KEY_HEADS, KEY_HEADS)
    ]


def flat(value: Any) -> list[Tensor]:
    """The tensors of one answer."""
    return [value] if isinstance(value, Tensor) else list(value)


def answers(attention: regard.Attention, summaries: tuple[regard.Summary, ...]) -> list[Tensor]:
    """Output, lse, and whatever was measured."""
    measured = attention.summarize(*summaries) if summaries else {}
    return [attention.output, attention.lse, *(t for v in measured.values() for t in flat(v))]


@pytest.fixture(params=SUMMARIES)
def summaries(request: pytest.FixtureRequest) -> tuple[regard.Summary, ...]:
    """Nothing asked for, what comes on the way, and everything."""
    return SUMMARIES[request.param]


@pytest.fixture(params=OURS)
def implementation(request: pytest.FixtureRequest) -> str:
    """Ours."""
    return str(request.param)
