"""What tests of the engine share: inputs, implementations, and how often a backend sweeps."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.engine.backends.cpu.sweeps import CpuSweeps
from regard.engine.backends.tiled import TiledSweeps

EVERY = ("cpu", "tiled", "dense", "library")
each_implementation = pytest.mark.parametrize("implementation", EVERY)
each_sweep = pytest.mark.parametrize("implementation", ["cpu", "tiled"])


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random numbers; the same seed gives the same ones in every dtype."""
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=dice, dtype=torch.float64).to(dtype)


def qkv(
    queries: int = 6,
    keys: int | None = None,
    *,
    heads: tuple[int, int] = (4, 2),
    batch: tuple[int, ...] = (2,),
    dim: int = 8,
    value_dim: int | None = None,
    dtype: torch.dtype = torch.float32,
    grad: bool = False,
) -> list[Tensor]:
    """query (*batch, heads, queries, dim), key and value (*batch, key heads, keys, …)."""
    keys = queries if keys is None else keys
    sizes = ((heads[0], queries, dim), (heads[1], keys, dim), (heads[1], keys, value_dim or dim))
    made = [draw(*batch, *size, seed=n, dtype=dtype) for n, size in enumerate(sizes)]
    return [tensor.requires_grad_(grad) for tensor in made]


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What dies within the test dies by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each sweep of the backends on the CPU ran."""
    counted: Counter[str] = Counter()
    for kind in (CpuSweeps, TiledSweeps):
        for name in ("rows", "columns", "cells", "backward"):
            monkeypatch.setattr(kind, name, _counting(counted, name, getattr(kind, name)))
    return counted


def _counting(counted: Counter[str], name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    def count(*given: Any, **more: Any) -> Any:
        counted[name] += 1
        return run(*given, **more)

    return count
