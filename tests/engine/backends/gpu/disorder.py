"""Interpreted programs in any order, as on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from triton.runtime import interpreter


@contextmanager
def disordered() -> Iterator[None]:
    """As on a GPU, no program comes before another, nor a lane that counts before another."""
    builder: Any = interpreter.interpreter_builder
    start, count = builder.set_grid_idx, builder.create_atomic_rmw
    orders: dict[tuple[int, ...], list[int]] = {}

    def begin(x: int, y: int, z: int) -> None:
        down, across, deep = sizes = builder.grid_dim
        if (x, y, z) == (0, 0, 0):
            orders[sizes] = torch.randperm(down * across * deep).tolist()
        place = orders[sizes][(x * across + y) * deep + z]
        start(place // deep // across, place // deep % across, place % deep)

    def counted(what: Any, where: Any, number: Any, mask: Any, *rest: Any) -> Any:
        lanes = torch.randperm(where.data.size).numpy()
        moved = [_taken(handle, lanes) for handle in (where, number, mask)]
        found = count(what, *moved, *rest)
        back = found.data.copy().reshape(-1)
        back[lanes] = found.data.reshape(-1)
        return interpreter.TensorHandle(back.reshape(where.data.shape), found.dtype)

    builder.set_grid_idx, builder.create_atomic_rmw = begin, counted
    try:
        yield
    finally:
        builder.set_grid_idx, builder.create_atomic_rmw = start, count


def _taken(handle: Any, lanes: Any) -> Any:
    data = handle.data.reshape(-1)[lanes].reshape(handle.data.shape)
    return interpreter.TensorHandle(data, handle.dtype)
