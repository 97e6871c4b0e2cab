"""Decoding: what kept scores tell is what a definition says, with the same bits in any company."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.on_device.conftest import tensors
from regard.engine.backends.gpu import few
from regard.engine.call import parts_of
from regard.testing import poisoned_memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

ASKED = (
    regard.Entropy(), regard.Received(), regard.Pooled(), regard.Pooled(7, "max"),
    regard.Pooled(1500), regard.Top(16),
)  # fmt: skip
SIZES = pytest.mark.parametrize(("queries", "keys"), [(1, 8192), (3, 2501), (16, 5000)])


def given(queries: int, keys: int, batch: int = 2, **kind: Any) -> list[Tensor]:
    """The last queries over all keys, some of which are there twice."""
    q, k, v = tensors(batch=batch, tokens=keys, **kind)
    k[..., 1000:1100, :] = k[..., 10:110, :]
    return [q[:, :, -queries:].contiguous(), k, v]


def told(a: regard.Attention, *asked: regard.Summary) -> list[Tensor]:
    return [part for value in a.summarize(*asked).values() for part in parts_of(value)]


@SIZES
@pytest.mark.parametrize("mask", [None, regard.Causal(), regard.Window(700)], ids=repr)
@pytest.mark.parametrize(
    ("dtype", "dim"), [(torch.bfloat16, 64), (torch.bfloat16, 128), (torch.float32, 64)], ids=str
)
def test_as_defined(queries: int, keys: int, mask: Any, dtype: torch.dtype, dim: int) -> None:
    inputs = given(queries, keys, dim=dim, dtype=dtype)
    with poisoned_memory():
        a = regard.attend(*inputs, mask=mask, summaries=ASKED, implementation="triton")
    right = regard.attend(*(t.double() for t in inputs), mask=mask, implementation="dense")
    found, exact = a.summarize(*ASKED), right.summarize(*ASKED)
    best, best_right = found.pop(ASKED[-1]), exact.pop(ASKED[-1])
    torch.testing.assert_close(best.weights.double(), best_right.weights, rtol=1e-4, atol=1e-6)
    assert (best.keys == best_right.keys).double().mean() > 0.999  # near ones may swap places
    for summary, value in exact.items():
        torch.testing.assert_close(
            found[summary].double(), value, rtol=1e-4, atol=1e-5, msg=repr(summary)
        )


@SIZES
@pytest.mark.parametrize("dim", [64, 128])
def test_the_same_bits(queries: int, keys: int, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run after run, alone or in a batch, asked soon or later, some heads at a time."""
    inputs = given(queries, keys, batch=3, dim=dim)
    run = {"mask": regard.Causal(), "implementation": "triton"}
    first = told(regard.attend(*inputs, summaries=ASKED, **run), *ASKED)
    with poisoned_memory():
        again = told(regard.attend(*inputs, summaries=ASKED, **run), *ASKED)
    later = regard.attend(*inputs, **run)
    apart = [part for summary in ASKED for part in told(later, summary)]
    alone = told(regard.attend(*(t[1:2] for t in inputs), summaries=ASKED, **run), *ASKED)
    monkeypatch.setattr(few, "_BUFFER", 1)
    pieces = told(regard.attend(*inputs, summaries=ASKED, **run), *ASKED)
    for number, right in enumerate(first):
        assert torch.equal(again[number], right), f"answer {number}, run after run"
        assert torch.equal(apart[number], right), f"answer {number}, asked later"
        assert torch.equal(pieces[number], right), f"answer {number}, a head at a time"
        assert torch.equal(alone[number], right[1:2]), f"answer {number}, alone"
