"""Sweeps that are launched again have the bits of those that are not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import answers, tensors
from regard.engine.backends.gpu import again

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

ASKED = (regard.Entropy(), regard.MaxScore(), regard.Distance(), regard.Concentration())
MASKS = {"none": None, "causal": regard.Causal(), "window": regard.Window(100)}


@pytest.mark.parametrize("dim", [64, 80, 128])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("implementation", ["triton", None])
def test_the_same_bits(implementation: str | None, mask: str, dim: int) -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        a = regard.attend(q, k, v, mask=MASKS[mask], summaries=ASKED, implementation=implementation)
        return answers(a, ASKED)

    def anew(*given: Tensor) -> list[Tensor]:
        again._KEPT.clear()
        return run(*given)

    with torch.no_grad():
        first = tensors(tokens=777, dim=dim)
        run(*first)
        assert any(again._KEPT.values())
        others = [t.roll(7, -2) * 1.25 for t in first]
        turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in others]
        for given in (first, others, turned, [first[0], first[1], first[1]]):
            found = run(*given)
            for one, other in zip(found, anew(*given), strict=True):
                assert torch.equal(one, other)
            for one, other in zip(run(*given), found, strict=True):
                assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()


def test_on_another_stream() -> None:
    q, k, v = tensors(tokens=2100)
    side = torch.cuda.Stream()
    with torch.no_grad():
        right = regard.attend(q, k, v, summaries=ASKED).entropy()
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)  # the launch has to wait for this stream, not another
            fresh = [t * 1 for t in (q, k, v)]
            found = regard.attend(*fresh, summaries=ASKED).entropy()
        side.synchronize()
    assert torch.equal(found, right)
