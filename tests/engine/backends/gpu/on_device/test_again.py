"""Sweeps that are launched again have the bits of those that are not."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import answers, tensors
from regard.engine.backends.gpu import again
from regard.engine.backends.gpu.steps import SweepSteps
from regard.summary import Visible

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

ROWS = (regard.Entropy(), regard.MaxScore(), regard.Distance(), regard.Concentration())
ASKED = {
    "rows": ROWS,
    "everything": (*ROWS, regard.Received(), regard.Pooled(), regard.Top(8), Visible()),
    "top": (regard.Top(5),),
    "map": (regard.Pooled(100, how="max"), regard.Offsets()),
}
MASKS = {"causal": regard.Causal(), "window": regard.Window(100)}


@pytest.mark.parametrize("dim", [80, 128])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("queries", [1, 2500])
@pytest.mark.parametrize("implementation", ["triton", None])
def test_the_same_bits(
    implementation: str | None, queries: int, asked: str, mask: str, dim: int
) -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        q = q[..., -queries:, :]
        a = regard.attend(
            q, k, v, mask=MASKS[mask], summaries=ASKED[asked], implementation=implementation
        )
        return answers(a, ASKED[asked])

    def anew(*given: Tensor) -> list[Tensor]:
        again._KEPT.clear()
        return run(*given)

    with torch.no_grad():
        first = tensors(tokens=max(queries, 1777), dim=dim)
        for _ in range(2):
            run(*first)
        assert any(isinstance(kept, SweepSteps) for kept in again._KEPT.values())
        others = [t.roll(7, -2) * 1.25 for t in first]
        turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in others]
        for given in (first, others, turned, [first[0], first[1], first[1]]):
            right = anew(*given)
            run(*given)
            for _ in range(2):
                found = run(*given)
                for one, other in zip(found, right, strict=True):
                    assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()


@pytest.mark.parametrize("asked", [{}, {"entropy": True}], ids=["output", "entropy"])
def test_backward_has_the_same_bits(asked: dict[str, bool]) -> None:
    leaves = [t.requires_grad_() for t in tensors(tokens=1300)]

    def grads() -> list[Tensor]:
        a = regard.attend(*leaves, mask=regard.Causal(), summaries=(regard.Entropy(),))
        total = a.output.float().square().sum() + (a.entropy().sum() if asked else 0)
        return list(torch.autograd.grad(total, leaves))

    again._KEPT.clear()
    right = grads()
    for _ in range(3):
        for one, other in zip(grads(), right, strict=True):
            assert torch.equal(one, other)


def test_in_a_thread_that_never_used_the_gpu() -> None:
    q, k, v = tensors(tokens=700)
    asked = ASKED["everything"]
    with torch.no_grad():
        right = [answers(regard.attend(q, k, v, summaries=asked), asked) for _ in range(3)]
    found: list[list[Tensor]] = []

    def run() -> None:
        with torch.no_grad():
            found.append(answers(regard.attend(q, k, v, summaries=asked), asked))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(found) == 8
    for one in found:
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
            found = regard.attend(*fresh, summaries=ROWS).entropy()
        side.synchronize()
    assert torch.equal(found, right)
