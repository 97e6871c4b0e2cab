"""Compiled whole, and captured as a CUDA graph: the same answers, no host in between."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import answers, flat, tensors
from regard.engine.backends.gpu import spelt
from regard.errors import UnavailableError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

Function = Callable[..., list[Tensor]]


def function(
    summaries: tuple[regard.Summary, ...],
    implementation: str | None = None,
    mask: regard.Mask = regard.Causal(),  # noqa: B008 - a value
) -> Function:
    def run(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        a = regard.attend(q, k, v, mask=mask, summaries=summaries, implementation=implementation)
        return answers(a, summaries)

    return run


def expect_same(found: list[Tensor], right: list[Tensor]) -> None:
    assert len(found) == len(right)
    for number, (one, other) in enumerate(zip(found, right, strict=True)):
        assert torch.equal(one, other), f"answer {number} has other bits"


def test_one_graph_without_breaks(
    summaries: tuple[regard.Summary, ...], implementation: str
) -> None:
    plain = function(summaries, implementation)
    compiled = torch.compile(plain, fullgraph=True)
    q, k, v = tensors(tokens=2100)
    expect_same(compiled(q, k, v), plain(q, k, v))


def test_the_default_compiles_too() -> None:
    """By whichever implementation: compiled code may get another one than a plain call."""
    plain = function(())
    compiled = torch.compile(plain, fullgraph=True)
    q, k, v = tensors(tokens=2100)
    for mine, right in zip(compiled(q, k, v), plain(q, k, v), strict=True):
        torch.testing.assert_close(mine, right, rtol=2e-2, atol=2e-2)


def test_gradients_of_a_compiled_call() -> None:
    """The output's and the entropy's."""

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        a = regard.attend(q, k, v, mask=regard.Causal(), summaries=(regard.Entropy(),))
        return a.output.float().square().sum() + a.entropy().sum()

    leaves = [t.requires_grad_() for t in tensors()]
    right = torch.autograd.grad(loss(*leaves), leaves)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True)(*leaves), leaves)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)


def expect_captured(run: Function, given: list[Tensor]) -> None:
    """A replayed graph answers about new numbers in the same places; kernels are compiled and tuned
    before."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run(*given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        written = run(*given)
    for tensor in given:
        tensor.copy_(tensor.roll(7, -2) * 1.25)
    graph.replay()
    torch.cuda.synchronize()
    expect_same(written, run(*given))


@pytest.mark.parametrize("tokens", [330, 2100])  # with and without pruning of the top keys
def test_a_captured_graph_answers_new_numbers(
    summaries: tuple[regard.Summary, ...], tokens: int
) -> None:
    expect_captured(function(summaries), tensors(tokens=tokens))


class Forgetful(OrderedDict[Any, Any]):
    """As where others have pushed everything out."""

    def get(self, name: Any, default: Any = None) -> Any:
        return default


@pytest.mark.parametrize("kept", [OrderedDict, Forgetful])
def test_a_mask_that_is_spelt_out_is_captured(
    summaries: tuple[regard.Summary, ...], kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its bits are there already or are made amid the capture: nothing is fetched."""
    monkeypatch.setattr(spelt, "_KEPT", kept())
    monkeypatch.setattr(spelt, "_LITTLE", 0)
    mask = regard.Rule(lambda i, j: (i // 200 + j // 200) % 3 < 2)
    expect_captured(function(summaries, "triton", mask), tensors(tokens=2100))


QUESTIONS: dict[str, Callable[[regard.Attention], Any]] = {
    "visible": lambda a: a.received(per="visible"),
    "some queries": lambda a: a.received(slice(3, 90)),
    "every seventh query": lambda a: a.received(slice(None, None, 7)),
    "groups": lambda a: a.received(64, groups="mean"),
    "offsets": lambda a: a.summarize(regard.Offsets()),
    "map": lambda a: a.pooled(50),
    "top": lambda a: a.top(3),
    "peak": lambda a: a.peak(),
    "distance": lambda a: a.distance(),
    "row": lambda a: a[:, 1, -1],
    "rectangle": lambda a: a[0, ..., 10:20, 5:90:3],
    "scores": lambda a: a.scores[..., 7, :],
    "chosen rows": lambda a: a.rows(torch.arange(5, device=a.device) * 3),
    "product": lambda a: a @ torch.ones(a.shape[-1], 3, device=a.device),
    "transposed": lambda a: a.T @ torch.ones(a.shape[-2], device=a.device),
    "sink": lambda a: a.sink_mass(),
}


@pytest.mark.parametrize("tokens", [200, 2100])
@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_captured(question: str, tokens: int) -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        answer = QUESTIONS[question](regard.attend(q, k, v, mask=regard.Causal()))
        parts = answer.values() if isinstance(answer, dict) else [answer]
        return [t for part in parts for t in flat(part)]

    expect_captured(run, tensors(tokens=tokens))


FROM_THE_HOST: dict[str, Callable[[regard.Attention], Any]] = {
    "queries": lambda a: a.received([3, 6]),
    "queries on the GPU": lambda a: a.received(torch.arange(3, device=a.device)),
    "rows": lambda a: a.rows([3, 6]),
    "booleans": lambda a: a[..., torch.ones(a.shape[-1], dtype=torch.bool, device=a.device)],
    "two lists": lambda a: a[..., torch.arange(3, device=a.device), [1, 2, 3]],
}


@pytest.mark.parametrize("question", FROM_THE_HOST)
def test_what_comes_from_the_host_is_not_captured(question: str) -> None:
    q, k, v = tensors(tokens=300)
    FROM_THE_HOST[question](regard.attend(q, k, v))
    a = regard.attend(q, k, v)
    why = "a CUDA graph cannot capture; give"
    with pytest.raises(UnavailableError, match=why), torch.cuda.graph(torch.cuda.CUDAGraph()):
        FROM_THE_HOST[question](a)


def test_one_step_of_decoding_is_captured(summaries: tuple[regard.Summary, ...]) -> None:
    """One query over a long cache, as an inference loop replays it."""
    q, k, v = tensors(batch=8, tokens=4096)
    expect_captured(function(summaries), [q[:, :, -1:].contiguous(), k, v])
