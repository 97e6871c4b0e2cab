"""The same bits run after run, alone, in a batch, padded on the right: statistics included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import SUMMARIES, TOKENS, answers, tensors
from regard.testing import poisoned_memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

Attend = Callable[..., regard.Attention]
DIMS = pytest.mark.parametrize("dim", [64, 128])


def named(a: regard.Attention) -> dict[str, Tensor]:
    """What rows say of themselves, what keys received, what was pooled, cells."""
    top = a.top(8)
    return {
        "output": a.output, "lse": a.lse, "entropy": a.entropy(), "max_score": a.max_score(),
        "max_logit": a.max_logit(), "concentration": a.concentration(), "top": top.weights,
        "top keys": top.keys, "received": a.received(), "pooled": a.pooled(64),
        "largest": a.pooled(32, "max"), "a row": a.rows([5]), "scores": a.scores[..., -3:, :],
    }  # fmt: skip


def expect_same_bits(found: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    different = [name for name in right if not torch.equal(found[name], right[name])]
    assert not different


def gradients(attend: Attend, given: list[Tensor], **options: Any) -> dict[str, Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in given]
    a = attend(*leaves, **options)
    loss = a.output.float().square().sum() + a.entropy().sum() + a.received().square().sum()
    return dict(zip("qkv", torch.autograd.grad(loss, leaves), strict=True))


@DIMS
@pytest.mark.parametrize("tokens", [TOKENS, 2100])
def test_run_after_run(attend: Attend, implementation: str, dim: int, tokens: int) -> None:
    given = tensors(tokens=tokens, dim=dim)
    run = {"mask": regard.Causal(), "implementation": implementation}
    everything = SUMMARIES["everything"]
    first = answers(attend(*given, summaries=everything, **run), everything)
    learned = gradients(attend, given, **run)
    for _ in range(3):
        with poisoned_memory():
            again = answers(attend(*given, summaries=everything, **run), everything)
            expect_same_bits(gradients(attend, given, **run), learned)
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


@DIMS
@pytest.mark.parametrize("mask", [None, regard.Causal()], ids=["full", "causal"])
def test_alone_or_in_a_batch(attend: Attend, implementation: str, dim: int, mask: Any) -> None:
    given = tensors(batch=3, dim=dim)
    run = {"mask": mask, "implementation": implementation}
    batch = named(attend(*given, **run))
    alone = named(attend(*(t[1:2] for t in given), **run))
    expect_same_bits({name: x[1:2] for name, x in batch.items()}, alone)


@DIMS
@pytest.mark.parametrize("length", [1, 64, 257])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_padded_on_the_right_or_not(
    attend: Attend, implementation: str, dim: int, length: int, causal: bool
) -> None:
    """Rubbish behind the end of a sequence changes nothing before it."""
    given = tensors(dim=dim)
    for tensor in given:
        tensor[1, :, length:] = 1e4
    padding = regard.Padding([TOKENS, length])
    run = {"implementation": implementation}
    padded = attend(*given, mask=regard.Causal() & padding if causal else padding, **run)
    short = [t[1:2, :, :length] for t in given]
    alone = attend(*short, mask=regard.Causal() if causal else None, **run)
    for name, measure in _MEASURES.items():
        found = measure(padded)[1:2, :, :length]
        assert torch.equal(found, measure(alone)), f"{name}: other bits"


_MEASURES: dict[str, Callable[[regard.Attention], Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse,
    "entropy": lambda a: a.entropy(),
    "max_score": lambda a: a.max_score(),
    "concentration": lambda a: a.concentration(),
    "top": lambda a: a.top(8).weights,
    "top keys": lambda a: a.top(8).keys,
}


@DIMS
@pytest.mark.parametrize("start", [1, 100, 329])
def test_chunks_of_queries(attend: Attend, implementation: str, dim: int, start: int) -> None:
    """The last queries over all keys, as a prefill in chunks asks; the last one is a decode."""
    q, k, v = tensors(dim=dim)
    run = {"mask": regard.Causal(), "implementation": implementation}
    whole, last = attend(q, k, v, **run), attend(q[..., start:, :], k, v, **run)
    for name, measure in _MEASURES.items():
        assert torch.equal(measure(last), measure(whole)[:, :, start:]), f"{name}: other bits"


def test_the_default_is_deterministic() -> None:
    """Whichever implementation that is."""
    given = tensors(tokens=2100, dim=128)
    first, second = (regard.attend(*given, mask=regard.Causal()) for _ in range(2))
    assert torch.equal(first.output, second.output) and torch.equal(first.lse, second.lse)
    expect_same_bits(named(second), named(first))


@DIMS
def test_mass_from_the_backward(attend: Attend, implementation: str, dim: int) -> None:
    """The same run after run, as the column sweep says, and gradients are those without it."""
    given = [t.requires_grad_() for t in tensors(tokens=2100, dim=dim)]
    run = {"mask": regard.Causal(), "implementation": implementation}

    def learned(a: regard.Attention) -> dict[str, Tensor]:
        loss = a.output.float().square().sum() + a.lse.sum()
        return dict(zip("qkv", torch.autograd.grad(loss, given), strict=True))

    bare = attend(*given, **run)
    right, swept, before = learned(bare), bare.received().detach(), None
    for _ in range(2):
        with poisoned_memory():
            a = attend(*given, in_backward=(regard.Received(),), **run)
            expect_same_bits(learned(a), right)
        mass = a._known.brought.mass
        torch.testing.assert_close(mass, swept, rtol=1e-5, atol=1e-5)
        assert before is None or torch.equal(mass, before)
        before = mass
