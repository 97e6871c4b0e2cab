"""regard.divergence of two attentions by the kernels, value and gradients, is that of the tiles."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import regard
from each.conftest import DEVICE
from regard.engine.backends.gpu import pairs

pytestmark = pytest.mark.kernels

QUERIES, KEYS = (40, 50) if DEVICE == "cpu" else (1000, 1300)
CAUSAL = {"mask": regard.Causal()}
LENGTHS = regard.Padding([KEYS, KEYS - 13], queries=[QUERIES, QUERIES - 20])
BENT = {"softcap": 3.0, "scale": 0.9}
SLOPES = {"softcap": 2.0, "bias": regard.ALiBi(torch.tensor([0.5, 0.25], device=DEVICE)), **CAUSAL}


def side(
    implementation: str, seed: int, size: tuple[int, int, int], dtype: torch.dtype, sink: bool,
    queries: int, **rule: Any,
) -> tuple[regard.Attention, list[Tensor]]:  # fmt: skip
    """An attention of (heads, key heads, dim), and what learns."""
    heads, key_heads, dim = size
    dice = torch.Generator().manual_seed(seed)
    q, k = (
        torch.randn(2, h, n, dim, generator=dice).to(DEVICE, dtype).requires_grad_()
        for h, n in ((heads, queries), (key_heads, KEYS))
    )
    level = torch.randn(heads, generator=dice).to(DEVICE).requires_grad_() if sink else None
    a = regard.attend(q, k, k, sink=level, implementation=implementation, **rule)
    return a, [q, k] if level is None else [q, k, level]


def close(mine: Tensor, right: Tensor, slack: float) -> None:
    """Within a share of the largest number."""
    finite = torch.isfinite(right)
    assert torch.equal(finite, torch.isfinite(mine))
    mine, right = mine.where(finite, 0).float(), right.where(finite, 0).float()
    assert (mine - right).abs().max() <= slack * max(right.abs().max().item(), 1e-3)


HALF, SINGLE = torch.bfloat16, torch.float32
FOUR, TWO, ONE = (4, 2, 16), (2, 2, 16), (1, 1, 8)
# how, heads; dtype; both sides: sizes, whether there is a sink, the rule
CASES: dict[str, tuple[str, Any, torch.dtype, tuple[Any, ...], tuple[Any, ...]]] = {
    "kl": ("kl", "each", SINGLE, (FOUR, False, CAUSAL), ((4, 1, 40), False, CAUSAL)),
    "reverse": ("reverse_kl", "each", HALF, (FOUR, False, {}), ((4, 1, 40), False, {})),
    "js": ("js", "each", SINGLE, (TWO, False, {"mask": regard.Window(20)}), (TWO, False, CAUSAL)),
    "sum": ("kl", "sum", SINGLE, ((6, 2, 16), False, {"mask": LENGTHS & regard.Causal()}),
            (ONE, False, {"mask": LENGTHS})),
    "sum, js": ("js", "sum", SINGLE, (FOUR, False, {}), (ONE, False, {})),
    "mean": ("kl", {2: (0, 3), 0: (1, 2)}, SINGLE, (FOUR, False, {}), ((3, 3, 8), False, {})),
    "a head each": ("reverse_kl", {1: 3}, SINGLE, (FOUR, False, {}), ((3, 3, 8), False, {})),
    "sinks": ("kl", "each", SINGLE, (TWO, True, CAUSAL), ((2, 1, 16), True, CAUSAL)),
    "sinks, js": ("js", "each", SINGLE, (TWO, True, CAUSAL), ((2, 1, 16), True, CAUSAL)),
    "sinks, tv": ("tv", "each", SINGLE, (TWO, True, CAUSAL), ((2, 1, 16), True, CAUSAL)),
    "teacher's sink": ("reverse_kl", "each", SINGLE, (TWO, True, CAUSAL), (TWO, False, CAUSAL)),
    "student's sink": ("kl", {0: (0, 1)}, SINGLE, (TWO, False, CAUSAL), (TWO, True, CAUSAL)),
    "sum, sinks": ("kl", "sum", SINGLE, (TWO, True, {}), (ONE, True, {})),
    "bent": ("kl", "each", SINGLE, (TWO, False, BENT), (TWO, False, SLOPES)),
    "bent, tv": ("tv", "each", SINGLE, (TWO, False, SLOPES), (TWO, False, BENT)),
}  # fmt: skip


def expect_right(name: str, by_kernels: bool = True, queries: Any = None) -> None:
    how, heads, dtype, *sides = CASES[name]
    count = 130 if dtype == HALF and DEVICE == "cpu" else QUERIES  # rows of a tile, and two more
    answers = []
    for implementation in ("triton", "tiled"):
        (teacher, _), (student, learns) = (
            side(implementation, seed, size, dtype, sink, count, **rule)
            for seed, (size, sink, rule) in enumerate(sides)
        )
        with patch.object(pairs, "pair_sums", wraps=pairs.pair_sums) as launched:
            d = regard.divergence(teacher.detach(), student, how=how, heads=heads, queries=queries)
        assert launched.called is (by_kernels and implementation == "triton")
        grad = torch.randn(d.shape, generator=torch.Generator().manual_seed(9)).to(d)
        answers.append((d, *torch.autograd.grad(d, learns, grad)))
    for n, (mine, right) in enumerate(zip(*answers, strict=True)):
        close(mine, right, 2e-2 if dtype == HALF and n else 2e-5)


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str) -> None:
    expect_right(name)


def test_some_queries() -> None:
    expect_right("kl", queries=20)
    expect_right("js", queries=slice(11, 33))


def test_what_the_kernels_do_not_take_comes_by_tiles() -> None:
    """The logarithm of a sum that is too small for a float; a student made of several heads."""
    several = (FOUR, False, {}), (FOUR, False, {})
    for how, heads in (("reverse_kl", {0: (0, 1)}), ("kl", "sum")):
        with patch.dict(CASES, other=(how, heads, SINGLE, *several)):
            expect_right("other", by_kernels=False)
