"""Inputs for the C kernels, and the instruction sets that this machine runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.backends.cpu.load import Kernels, _find

TYPES = (torch.float32, torch.float64)
each_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype)[6:])


def kernels() -> Kernels:
    loaded = _find()
    assert isinstance(loaded, Kernels), loaded
    return loaded


def instruction_sets() -> list[str]:
    """Without kernels the one parameter makes the tests fail by name."""
    loaded = _find()
    return loaded.instruction_sets() if isinstance(loaded, Kernels) else ["none"]


@pytest.fixture(params=instruction_sets())
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernels of one instruction set."""
    chosen = Kernels(kernels().path, request.param)
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.load", lambda: chosen)
    return chosen.isa


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def attend(*tensors: Tensor, **options: Any) -> regard.Attention:
    return regard.attend(*tensors, implementation="cpu", **options)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=dice, dtype=torch.float64).to(dtype)


def everything(dtype: torch.dtype) -> dict[str, Any]:
    """A mask in strips, and every score rule, of four heads."""
    return {
        "mask": regard.Window(100) & regard.Rule(lambda i, j: (i + j) % 7 != 0), "softcap": 3.0,
        "bias": regard.ALiBi(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=dtype)),
        "sink": torch.tensor([0.0, 1.0, -1.0, 2.0], dtype=dtype),
    }  # fmt: skip
