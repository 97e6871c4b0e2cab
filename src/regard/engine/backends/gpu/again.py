"""A sweep that is launched again as it was before: the calls of a model are alike.

What a sweep does (which kernels, in which order, over which memory, with which numbers) depends on
sizes, strides, dtypes, the mask's value and the questions, not on what the tensors hold: nothing
waits for the GPU. So the second sweep of its kind is watched, every operation of torch's and every
launch, and what was seen is kept as `steps` for the next one alike. No tensor is kept.

The second, not the first: kinds that come once, as where a cache grows with every token, are not
worth watching. Nor are sweeps that take a GPU milliseconds: nobody waits for the host there, and
while a sweep is watched, all that it allocates is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.engine.backends.gpu.launch import interpreting, launches
from regard.engine.backends.gpu.steps import Operation, SweepSteps, steps_of
from regard.engine.call import Call
from regard.summary import Summary

_MANY = 1024  # kinds of sweeps
_LARGEST = 2**32  # cells of the matrix
_ALIGNED = 16  # bytes; kernels are compiled for pointers that are so, and for others
_PLAIN = (Tensor, torch.nn.Parameter)

_NEW, _ONCE = object(), object()  # kinds that never came, and that came once

_KEPT: dict[Any, Any] = {}  # steps; None: a kind that steps cannot say

_Sweep = TypeVar("_Sweep", bound=Callable[..., Any])


def repeated(sweep: _Sweep) -> _Sweep:
    """A method of sweeps, by what was kept of one alike where there is such."""

    @wraps(sweep)
    def run(self: Any, call: Call, *args: Any, **options: Any) -> Any:
        asked = _asked((self.name, sweep.__name__), call, (*args, *options, *options.values()))
        if asked is None:
            return sweep(self, call, *args, **options)
        key, tensors = asked
        kept = _KEPT.get(key, _NEW)
        if isinstance(kept, SweepSteps):
            return kept.again(tensors)
        seen: list[Any] = []
        with watched(seen) if kept is _ONCE else nullcontext():
            found = sweep(self, call, *args, **options)
        if kept is _ONCE:
            _KEPT[key] = steps_of(tensors, seen, found)
        elif kept is _NEW:
            if len(_KEPT) >= _MANY:
                _KEPT.clear()  # others may do so at any time too
            _KEPT[key] = _ONCE
        return found

    return cast(_Sweep, run)


def _asked(
    name: tuple[str, ...], call: Call, args: Sequence[Any]
) -> tuple[Any, list[Tensor]] | None:
    """Everything that steps depend on but what tensors hold, and the tensors; None where steps
    depend on more."""
    mask, score, query = call.mask, call.score, call.query
    if not (mask is None or mask.is_flat) or score.bias is not None or score.sink is not None:
        return None
    if call.slots is not None:  # where keys are is told by a tensor of its own
        return None
    if query.dtype == torch.float64 or interpreting():  # numbers in double come as tensors
        return None
    if query.shape[:-1].numel() * call.shape.keys > _LARGEST:
        return None
    tensors, told = [query, call.key, call.value], []
    for arg in args:
        for part in arg if isinstance(arg, tuple) else (arg,):
            if isinstance(part, Tensor):
                tensors.append(part)
            elif isinstance(part, Summary) and not part.is_flat:
                return None
            else:
                told.append(part)
        told.append(len(tensors))  # which argument they belong to
    kinds = []
    for one in tensors:
        if type(one) not in _PLAIN:
            return None
        kinds.append((one.dtype, one.shape, one.stride(), one.data_ptr() % _ALIGNED == 0))
    same = None  # which of them are one tensor
    if len(set(map(id, tensors))) < len(tensors):
        first = {id(one): n for n, one in reversed(list(enumerate(tensors)))}
        same = tuple(first[id(one)] for one in tensors)
    key = (
        *name, call.shape, mask, score.scale, score.softcap, call.place, query.device, same,
        *kinds, *told,
    )  # fmt: skip
    return key, tensors


@contextmanager
def watched(seen: list[Any]) -> Iterator[None]:
    """Launches and torch's operations within the block are appended, as they come."""
    with launches(seen), _SeeOperations(seen):
        yield


class _SeeOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operation of torch's within the block is appended, with its tensors: while they are
    there, no other has their identity."""

    def __init__(self, seen: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self.seen.append(Operation(func, args, kwargs or {}, found))
        return found
