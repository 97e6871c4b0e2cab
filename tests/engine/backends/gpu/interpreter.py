"""What Triton's interpreter lacks of a GPU.

fix_products()     every cell of a product is summed in one order, whatever its tile
disordered()       programs, and lanes that count, come in any order
within_bounds()    a kernel that reads or writes outside its tensors raises
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from triton.runtime import interpreter

_Runs = tuple[Any, Any]  # where runs of memory begin and end, ascending, none touching another


# ── products ─────────────────────────────────────────────────────────────────────────────────


def fix_products() -> None:
    """Once in a process. The interpreter multiplies by numpy's BLAS, which picks its kernel, and so
    the order of its sums, by shape and processor; tests ask for the same bits in other tiles."""
    builder: Any = interpreter.interpreter_builder
    builder.create_dot = _dot


def product(a: Any, b: Any, dtype: Any) -> Any:
    """a @ b for (M, K) and (K, N): Σ_k a_ik b_kj in the order of k, each term rounded."""
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    term = np.empty_like(total)
    columns = np.ascontiguousarray(a.T)[:, :, None]
    with np.errstate(all="ignore"):  # ∞ − ∞ and sums too large, as on a GPU
        for column, row in zip(columns, np.ascontiguousarray(b), strict=True):
            np.multiply(column, row, out=term)
            np.add(total, term, out=total)
    return total


def _dot(a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    made = product(a.data, b.data, d.data.dtype) + d.data
    return interpreter.TensorHandle(made, d.dtype.scalar)


# ── order ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def disordered() -> Iterator[None]:
    """No program comes before another, nor a lane that counts before another."""
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
        before = count(what, *moved, *rest)
        back = before.data.copy().reshape(-1)
        back[lanes] = before.data.reshape(-1)
        return interpreter.TensorHandle(back.reshape(where.data.shape), before.dtype)

    builder.set_grid_idx, builder.create_atomic_rmw = begin, counted
    try:
        yield
    finally:
        builder.set_grid_idx, builder.create_atomic_rmw = start, count


def _taken(handle: Any, lanes: Any) -> Any:
    data = handle.data.reshape(-1)[lanes].reshape(handle.data.shape)
    return interpreter.TensorHandle(data, handle.dtype)


# ── bounds ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def within_bounds() -> Iterator[None]:
    """A lane that reads or writes outside the launch's tensors raises, as under memcheck."""
    builder: Any = interpreter.interpreter_builder
    load, store = builder.create_masked_load, builder.create_masked_store
    call = interpreter.GridExecutor.__call__
    runs: list[_Runs] = []

    def launch(self: Any, *args: Any, **options: Any) -> Any:
        runs.append(_runs((args, tuple(options.values()))))
        try:
            return call(self, *args, **options)
        finally:
            runs.pop()

    def loaded(pointers: Any, mask: Any, *rest: Any, **more: Any) -> Any:
        _check("reads", pointers, mask, runs[-1])
        return load(pointers, mask, *rest, **more)

    def stored(pointers: Any, given: Any, mask: Any, *rest: Any, **more: Any) -> Any:
        _check("writes", pointers, mask, runs[-1])
        return store(pointers, given, mask, *rest, **more)

    interpreter.GridExecutor.__call__ = launch
    builder.create_masked_load, builder.create_masked_store = loaded, stored
    try:
        yield
    finally:
        interpreter.GridExecutor.__call__ = call
        builder.create_masked_load, builder.create_masked_store = load, store


def _runs(given: Any) -> _Runs:
    """Of all tensors among the arguments, joined where they touch."""
    joined: list[list[int]] = []
    for first, behind in sorted(_extents(given)):
        if joined and first <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], behind)
        else:
            joined.append([first, behind])
    starts, ends = np.array(joined, np.uint64).reshape(-1, 2).T
    return starts, ends


def _extents(given: Any) -> Iterator[tuple[int, int]]:
    """From a tensor's first byte to behind its last."""
    if isinstance(given, tuple):
        for part in given:
            yield from _extents(part)
    elif isinstance(given, Tensor) and given.numel():
        last = sum((n - 1) * apart for n, apart in zip(given.shape, given.stride(), strict=True))
        start = given.data_ptr()
        yield start, start + (last + 1) * given.element_size()


def _check(what: str, pointers: Any, mask: Any, runs: _Runs) -> None:
    touched = np.broadcast_to(pointers.data, mask.data.shape)[mask.data.astype(bool)]
    starts, ends = runs
    place = np.searchsorted(starts, touched, side="right")
    outside = place == 0
    if ends.size:
        outside |= touched >= ends[np.maximum(place, 1) - 1]
    if outside.any():
        raise IndexError(f"a kernel {what} {int(outside.sum())} numbers outside its tensors")
