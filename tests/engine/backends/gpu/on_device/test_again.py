"""Sweeps that are launched again have the bits of those that are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import answers, tensors
from regard.engine.backends.gpu import again
from regard.summary import Visible

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

ROWS = (regard.Entropy(), regard.MaxScore(), regard.Distance(), regard.Concentration())
ASKED = {
    "everything": (*ROWS, regard.Received(), regard.Pooled(), regard.Top(8), Visible()),
    "map": (regard.Pooled(100, how="max"), regard.Offsets()),
}


@pytest.mark.parametrize("dim", [80, 128])
@pytest.mark.parametrize("mask", [regard.Causal(), regard.Window(100)], ids=repr)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("queries", [1, 2500])
@pytest.mark.parametrize("implementation", ["triton", None])
def test_the_same_bits(
    implementation: str | None, queries: int, asked: str, mask: regard.Mask, dim: int
) -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        rule: dict[str, Any] = {"mask": mask, "implementation": implementation}
        a = regard.attend(q[..., -queries:, :], k, v, summaries=ASKED[asked], **rule)
        return answers(a, ASKED[asked])

    with torch.no_grad():
        first = tensors(tokens=max(queries, 1777), dim=dim)
        others = [t.roll(7, -2) * 1.25 for t in first]
        turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in others]
        for given in (first, others, turned, [first[0], first[1], first[1]]):
            again._KEPT.clear()
            right = run(*given)
            run(*first)
            for _ in range(3):
                mine = run(*given)
                for one, other in zip(mine, right, strict=True):
                    assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()


def test_backward_has_the_same_bits() -> None:
    leaves = [t.requires_grad_() for t in tensors(tokens=1300)]

    def grads() -> list[Tensor]:
        a = regard.attend(*leaves, mask=regard.Causal(), summaries=(regard.Entropy(),))
        total = a.output.float().square().sum() + a.entropy().sum()
        return list(torch.autograd.grad(total, leaves))

    again._KEPT.clear()
    right = grads()
    for _ in range(3):
        assert all(torch.equal(one, other) for one, other in zip(grads(), right, strict=True))


def test_in_a_thread_that_never_used_the_gpu() -> None:
    q, k, v = tensors(tokens=700)
    asked = ASKED["everything"]

    def run(_: int = 0) -> list[Tensor]:
        with torch.no_grad():
            return answers(regard.attend(q, k, v, summaries=asked), asked)

    right = [run() for _ in range(3)]
    with ThreadPoolExecutor(8) as threads:
        others = list(threads.map(run, range(8)))
    torch.cuda.synchronize()
    for one in others:
        assert all(torch.equal(a, b) for a, b in zip(one, right[0], strict=True))


def test_on_another_stream() -> None:
    q, k, v = tensors(tokens=2100)
    side = torch.cuda.Stream()
    with torch.no_grad():
        for _ in range(3):
            right = regard.attend(q, k, v, summaries=ROWS).entropy()
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)  # the launch has to wait for this stream, not another
            fresh = [t * 1 for t in (q, k, v)]
            mine = regard.attend(*fresh, summaries=ROWS).entropy()
        side.synchronize()
    assert torch.equal(mine, right)
