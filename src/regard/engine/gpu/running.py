"""Kernels, started without asking Triton twice.

Triton looks at every argument of every launch to find which of its compiled kernels is meant. For
kernels of as many arguments as ours that takes several times as long as the launch, and the calls
of a model are alike. So what was found is kept for the next launch whose tensors are of the same
kinds and whose numbers are the same. Any other goes through Triton.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

_MANY = 4096  # launches
_NUMBERS = frozenset({type(None), bool, int, float})
_STRIDES = _NUMBERS | {tuple}
_ALIGNED = 16  # bytes; kernels are compiled for pointers that are so, and for others

# by everything a compiled kernel depends on: the kernel, and the values of its last parameters
_KNOWN: dict[Any, tuple[Any, tuple[Any, ...]]] = {}


def run(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """kernel[grid](*args, **constants): constants are the kernel's last parameters, in any order,
    and options."""
    if not isinstance(kernel, JITFunction):  # interpreted
        kernel[grid](*args, **constants)
        return
    # memory for the descriptors that kernels make of their tensors. Triton keeps who gives it per
    # thread, and gradients are computed in threads of their own
    triton.set_allocator(_allocate)
    # kernels live as long as their modules, so one's id is its own; its hash is that of its source
    where = id(kernel), torch.cuda.current_device()
    like = (*where, tuple(constants.items()), tuple(map(_kind, args)))
    known = _KNOWN.get(like)
    if known is None:
        compiled = kernel[grid](*args, **constants)
        last = tuple(constants[name] for name in kernel.arg_names[len(args) :])
        if len(_KNOWN) >= _MANY:
            _KNOWN.clear()  # others may do so at any time too
        _KNOWN[like] = compiled, last
    else:
        compiled, last = known
        compiled[(*grid, 1, 1)[:3]](*args, *last)


def _kind(given: Any) -> Any:
    """What of an argument decides which compiled kernel it is for: of a tensor the kind of its
    pointer, of a number all of it."""
    if isinstance(given, Tensor):
        return given.dtype, given.data_ptr() % _ALIGNED == 0
    if isinstance(given, tuple) and not _is_numbers(given):
        return tuple(map(_kind, given))
    return given


def _is_numbers(given: tuple[Any, ...]) -> bool:
    """All the way down. Asked at every launch, of rules of thirty numbers."""
    kinds = set(map(type, given))
    if kinds <= _NUMBERS:
        return True
    return kinds <= _STRIDES and all(_is_numbers(one) for one in given if type(one) is tuple)


def _allocate(size: int, align: int, stream: int | None) -> Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")
