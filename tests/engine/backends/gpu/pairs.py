"""Divergences by the kernels against those by strips; a child process, because Triton decides on
import whether it interprets. On a GPU the same without interpreter.

    TRITON_INTERPRET=1 python pairs.py <check>
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

import regard
from regard.engine import divergence as engine
from regard.engine.backends.gpu import pairs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
QUERIES, KEYS = (70, 90) if DEVICE == "cpu" else (1000, 1300)


def side(
    seed: int, heads: int, key_heads: int, dim: int, dtype: torch.dtype, **rule: Any
) -> tuple[regard.Attention, list[Tensor]]:
    """By the kernels."""
    dice = torch.Generator().manual_seed(seed)
    q, k = (
        torch.randn(2, h, n, dim, generator=dice).to(DEVICE, dtype).requires_grad_()
        for h, n in ((heads, QUERIES), (key_heads, KEYS))
    )
    learns = [q, k]
    if rule.pop("with_sink", False):
        learns.append(torch.randn(heads, generator=dice).to(DEVICE).requires_grad_())
        rule["sink"] = learns[2]
    return regard.attend(q, k, k, implementation="triton", **rule), learns


def compare(how: str, heads: Any, one: Any, other: Any, queries: Any = None) -> None:
    """Value and gradients of the student; the kernels must have run."""
    (teacher, _), (student, learns) = one, other
    teacher = teacher.detach()
    launched, sums = [], pairs.pair_sums
    pairs.pair_sums = lambda *given: launched.append(1) or sums(*given)
    found = regard.divergence(teacher, student, how=how, heads=heads, queries=queries)
    pairs.pair_sums = sums
    assert launched, "strips were taken"
    grad = torch.randn(found.shape, generator=torch.Generator().manual_seed(9)).to(found)
    gradients = torch.autograd.grad(found, learns, grad)
    native, engine.natively = engine.natively, lambda *_: None
    right = regard.divergence(teacher, student, how=how, heads=heads, queries=queries)
    expected = torch.autograd.grad(right, learns, grad)
    engine.natively = native
    half = learns[0].element_size() == 2
    close(found, right, 1e-5, how, heads)
    for got, want in zip(gradients, expected, strict=True):
        close(got, want, 2e-2 if half else 2e-5, how, heads)


def close(got: Tensor, want: Tensor, slack: float, *said: Any) -> None:
    """Within a share of the largest number."""
    finite = torch.isfinite(want)
    assert torch.equal(finite, torch.isfinite(got)), said
    got, want = got.where(finite, 0).float(), want.where(finite, 0).float()
    apart = (got - want).abs().max().item()
    assert apart <= slack * max(want.abs().max().item(), 1e-3), (*said, apart)


def check(name: str) -> None:
    """One of the checks."""
    f32 = torch.float32
    if name == "each":
        for dtype, mask in (
            (f32, regard.Causal()),
            (torch.bfloat16, None),
            (f32, regard.Window(20)),
        ):
            sides = side(0, 4, 2, 16, dtype, mask=mask), side(1, 4, 1, 40, dtype, mask=mask)
            for how in pairs.HOWS:
                compare(how, "each", *sides)
    elif name == "sum":
        mask = regard.Causal() & regard.Padding([KEYS, KEYS - 13], queries=[QUERIES, 50])
        sides = side(0, 6, 2, 16, f32, mask=mask), side(1, 1, 1, 8, f32, mask=mask)
        for how in ("kl", "js", "tv"):
            compare(how, "sum", *sides)
    elif name == "mean":
        sides = side(0, 4, 2, 16, f32), side(1, 3, 3, 8, f32)
        compare("kl", {2: (0, 3), 0: (1, 2)}, *sides)
        compare("reverse_kl", {1: 3}, *sides)
    elif name == "sinks":
        for one, other in ((True, True), (False, True), (True, False)):
            sides = (
                side(0, 2, 2, 16, f32, with_sink=one, mask=regard.Causal()),
                side(1, 2, 1, 16, f32, with_sink=other, mask=regard.Causal()),
            )
            for how in pairs.HOWS:
                compare(how, "each", *sides)
            compare("kl", {0: (0, 1)}, *sides)
            compare("kl", "sum", sides[0], side(2, 1, 1, 8, f32, with_sink=other))
    elif name == "bent":
        slopes = torch.tensor([0.5, 0.25], device=DEVICE)
        sides = (
            side(0, 2, 2, 16, f32, softcap=3.0, scale=0.9),
            side(1, 2, 2, 16, f32, softcap=2.0, bias=regard.ALiBi(slopes), mask=regard.Causal()),
        )
        for how in pairs.HOWS:
            compare(how, "each", *sides)
    elif name == "rows":
        sides = (
            side(0, 2, 2, 16, f32, mask=regard.Causal()),
            side(1, 2, 2, 16, f32, mask=regard.Window(30)),
        )
        compare("kl", "each", *sides, queries=20)
        compare("js", "each", *sides, queries=slice(11, 53))
    elif name == "refused":
        teacher, student = side(0, 2, 2, 16, f32)[0], side(1, 2, 2, 16, f32)[0]
        sides = [engine.Side(a._call, a._rows(), "triton") for a in (teacher, student)]
        rows = torch.arange(QUERIES)
        for how, heads in (("reverse_kl", {0: (0, 1)}), ("kl", "sum")):
            asked = regard.divergences.DivergenceOptions(
                how, regard.divergences._checked_heads(heads), None
            )
            question = engine.Question(how, asked.pairing(2, 2))
            assert engine._native(tuple(sides), rows, question) is None
        learning = engine.Question("kl", asked.pairing(2, 2), (True, True))
        assert engine._native(tuple(sides), rows, learning) is None


if __name__ == "__main__":
    check(sys.argv[1])
