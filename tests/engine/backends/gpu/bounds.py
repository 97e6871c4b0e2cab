"""Interpreted kernels that touch nothing but their tensors, as compute-sanitizer's memcheck asks of
compiled ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor
from triton.runtime import interpreter

_Runs = tuple[Any, Any]  # where runs of memory begin and end, ascending, none touching another


@contextmanager
def within_bounds() -> Iterator[None]:
    """Within the block, a lane that reads or writes outside the launch's tensors raises."""
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
