"""What tests of the engine share: inputs, implementations, and how often a backend sweeps."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
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


NUMBERS = ("entropy", "max_score", "max_logit", "concentration", "distance", "sink_mass")


def expect_sequence(
    a: regard.Attention,
    rows: slice,
    cols: slice,
    right: regard.Attention,
    near: float = 1e-6,
    numbers: tuple[str, ...] = NUMBERS,
) -> None:
    """What is asked of packed sequences is, about one of them, what it says alone."""
    close = partial(torch.testing.assert_close, rtol=near, atol=near)
    for name in numbers:
        close(getattr(a, name)()[:, rows], getattr(right, name)(), msg=name)
    close(a.lse[:, rows], right.lse)
    close(a.received()[:, cols], right.received())
    close(a.top(3).weights[:, rows], right.top(3).weights)
    close(a[:, rows, cols], right.dense())


def expect_alone(one: regard.Attention, right: regard.Attention, near: float = 1e-6) -> None:
    """Of `a.sequence(n)`: maps, diagonals and marks are its own."""
    assert one.shape == right.shape
    marks = regard.Matching(*(torch.arange(n) % 3 for n in right.shape[1:]))
    for asked in (regard.Pooled(7), regard.Offsets(), marks):
        answers = one.summarize(asked)[asked], right.summarize(asked)[asked]
        torch.testing.assert_close(*answers, rtol=near, atol=near)


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
