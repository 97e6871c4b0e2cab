"""The same bits run after run, asked soon or later, alone, in a batch, padded on the right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from each.conftest import DEVICE, inputs_and_truth
from engine.backends.gpu.paths import PATHS
from outcomes import REFUSED
from regard.engine import plan
from regard.engine.backends.gpu import replay
from regard.mask import Causal, Padding
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxScore,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)
from regard.testing import poisoned_memory

pytestmark = pytest.mark.kernels

ON = ("triton",) if DEVICE == "cpu" else ("triton", "hopper")
DIMS = pytest.mark.parametrize("dim", [16] if DEVICE == "cpu" else [64, 128])
each_implementation = pytest.mark.parametrize("implementation", ON)
TOKENS = 70 if DEVICE == "cpu" else 330
ASKED = (Entropy(), MaxScore(), Received(), Pooled(64), Top(8))


def tensors(tokens: int, dim: int, batch: int = 2) -> list[Tensor]:
    """q, k and v with grouped heads."""
    dice = torch.Generator().manual_seed(0)
    heads = (2, 1, 1) if DEVICE == "cpu" else (4, 2, 2)
    return [
        torch.randn(batch, h, tokens, dim, generator=dice).to(DEVICE, torch.bfloat16) for h in heads
    ]


def attend(*given: Tensor, **options: Any) -> regard.Attention:
    """regard.attend; a test that Hopper's kernel does not serve ends as refused."""
    try:
        return regard.attend(*given, **options)
    except regard.errors.UnavailableError as error:
        if options["implementation"] == "hopper":  # it takes few problems, by design
            pytest.skip(f"{REFUSED}hopper: {' '.join(str(error).split())}")
        raise


ROWS: dict[str, Callable[[regard.Attention], Tensor]] = {
    "output": lambda a: a.output, "lse": lambda a: a.lse, "entropy": lambda a: a.entropy(),
    "max score": lambda a: a.max_score(), "concentration": lambda a: a.concentration(),
    "top": lambda a: a.top(8).weights, "top keys": lambda a: a.top(8).keys,
}  # fmt: skip
MORE: dict[str, Callable[[regard.Attention], Tensor]] = {
    "max logit": lambda a: a.max_logit(), "received": lambda a: a.received(),
    "pooled": lambda a: a.pooled(64), "largest": lambda a: a.pooled(32, "max"),
    "a row": lambda a: a.rows([5]), "scores": lambda a: a.scores[..., -3:, :],
}  # fmt: skip


def expect_same(mine: regard.Attention, right: regard.Attention, names: Any, take: Any) -> None:
    """`take` is the part of my answers that the others have too."""
    for name, measure in names.items():
        assert torch.equal(take(measure(mine)), measure(right)), f"{name}: other bits"


@DIMS
@pytest.mark.parametrize("implementation", [*ON, None])
@pytest.mark.parametrize("tokens", [TOKENS] if DEVICE == "cpu" else [TOKENS, 2100])
def test_run_after_run(implementation: str | None, tokens: int, dim: int) -> None:
    """Also by whichever implementation is the default."""
    run: dict[str, Any] = {"mask": Causal(), "implementation": implementation}
    leaves = [t.requires_grad_() for t in tensors(tokens, dim)]
    answers = []
    for _ in range(2):
        with poisoned_memory():
            a = attend(*leaves, summaries=ASKED, **run)
            loss = a.output.float().square().sum() + a.entropy().sum() + a.received().square().sum()
            answers.append([
                a.output, a.lse, a.entropy(), a.received(), a.pooled(64), *a.top(8),
                *torch.autograd.grad(loss, leaves),
            ])  # fmt: skip
    assert all(torch.equal(x, y) for x, y in zip(*answers, strict=True))


@DIMS
@each_implementation
@pytest.mark.parametrize("causal", [True, False])
def test_alone_or_in_a_batch(implementation: str, causal: bool, dim: int) -> None:
    given = tensors(TOKENS, dim, batch=3)
    run = {"mask": Causal() if causal else None, "implementation": implementation}
    batch, alone = attend(*given, **run), attend(*(t[1:2] for t in given), **run)
    expect_same(batch, alone, ROWS | MORE, lambda answer: answer[1:2])


@DIMS
@each_implementation
@pytest.mark.parametrize("length", [33] if DEVICE == "cpu" else [1, 64, 257])
@pytest.mark.parametrize("causal", [True, False])
def test_padded_on_the_right_or_not(
    implementation: str, causal: bool, length: int, dim: int
) -> None:
    """Rubbish behind the end of a sequence changes nothing before it."""
    given, run = tensors(TOKENS, dim), {"implementation": implementation}
    for tensor in given:
        tensor[1, :, length:] = 1e4
    padding = Padding([TOKENS, length])
    padded = attend(*given, mask=Causal() & padding if causal else padding, **run)
    short = [t[1:2, :, :length] for t in given]
    alone = attend(*short, mask=Causal() if causal else None, **run)
    expect_same(padded, alone, ROWS, lambda answer: answer[1:2, :, :length])


@DIMS
@each_implementation
@pytest.mark.parametrize("start", [65] if DEVICE == "cpu" else [1, 100, 329])
def test_chunks_of_queries(implementation: str, start: int, dim: int) -> None:
    """The last queries over all keys, as a prefill in chunks asks; the last one is a decode."""
    q, k, v = tensors(TOKENS, dim)
    run: dict[str, Any] = {"mask": Causal(), "implementation": implementation}
    whole, last = attend(q, k, v, **run), attend(q[..., start:, :], k, v, **run)
    expect_same(whole, last, ROWS, lambda answer: answer[:, :, start:])


# ── whatever else is asked ───────────────────────────────────────────────────────────────────


def test_asked_with_the_output_or_afterwards() -> None:
    """And from the lse of more keys than were swept, a number is that share of it."""
    inputs, _ = inputs_and_truth(*PATHS["score rule"])
    tensors = (inputs.query, inputs.key, inputs.value)
    asked = (Concentration(), Distance(), Entropy(), MaxScore(), Visible())
    soon = regard.attend(*tensors, summaries=asked, implementation="triton", **inputs.options)
    late = regard.attend(*tensors, implementation="triton", **inputs.options)
    for summary, numbers in late.summarize(*asked).items():
        assert torch.equal(numbers, soon.summarize(summary)[summary]), f"{summary}: other bits"
    with patch.object(plan, "_order", lambda problem: ("triton",)):
        less = regard.replay(*tensors[:2], late.lse + 0.5, **inputs.options)
        scale = torch.tensor(-0.5).exp()
        assert_close(less.concentration(), late.concentration() * scale.square().to(DEVICE))
        assert_close(less.distance(), late.distance() * scale.to(DEVICE))
        assert_close(less.received(), late.received() * scale.to(DEVICE))


MAPS = (
    Pooled(1), Pooled(2), Pooled(4, "max"), Pooled(8), Pooled(8, "max"), Pooled(16),
    Pooled(16, "max"), Pooled(32), Pooled(64), Pooled(128, "max"), Pooled(192), Pooled(24),
)  # fmt: skip
SOME = Received((3, 68), "visible")  # in the first tile and in the last


@pytest.mark.parametrize("path", ["band", "score rule"])
def test_maps_beside_the_mass_of_all_queries(path: str) -> None:
    """One sweep has the bits of two: mass whichever map comes along and whichever way the grid is
    turned, and a map whether mass was asked or not. Both are as defined, whatever the cell."""
    case, dtype = PATHS[path]
    inputs, _ = inputs_and_truth(replace(case, batch=(1,)), dtype)
    given = inputs.query, inputs.key, inputs.value
    exact = regard.attend(*given, implementation="dense", **inputs.options)

    def ask(*asked: Summary) -> dict[Summary, Any]:
        a = regard.attend(*given, implementation="triton", **inputs.options)
        return a.summarize(*asked)

    alone = ask(Received())[Received()]
    for n, one in enumerate(MAPS):
        with poisoned_memory():
            both = ask(Received(), one, *([SOME] if n % 4 == 0 else []))
        assert torch.equal(both[Received()], alone), f"mass with {one!r}: other bits"
        if n % 3 == 0:
            assert torch.equal(both[one], ask(one)[one]), f"{one!r} alone: other bits"
        for summary, right in exact.summarize(*both).items():
            assert_close(both[summary], right, rtol=1e-4, atol=1e-5)
    # as if there were more blocks of keys than a grid's second axis takes
    with patch.object(replay, "_SECOND_AXIS", 0):
        assert torch.equal(ask(Received())[Received()], alone), "grid not turned: other bits"
