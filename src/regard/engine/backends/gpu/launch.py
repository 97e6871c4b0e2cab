"""Tile shapes, what every launch needs, and launching without asking Triton twice.

A shape is chosen from (head dim, dtype) alone, never from lengths or batch: a row then has the
same bits in whatever company it is computed.

Triton looks at every argument of every launch to find which of its compiled kernels is meant. For
kernels of as many arguments as ours that takes several times as long as the launch, and the calls
of a model are alike. So what was found is kept for the next launch whose tensors are of the same
kinds and whose numbers are the same. Any other goes through Triton.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound

# Kernels fuse a product and a sum where they say so and nowhere else. Left to the compiler, m − m
# becomes the rounding error of m, and no two kernels need agree.
EXACT = {"enable_fp_fusion": False}

_OLDEST_TRITON = (
    3,
    6,
)  # older ones lack what the kernels are written in, and are launched otherwise


class Shape(NamedTuple):
    """One tile: rows × keys, by so many warps, so many loads ahead."""

    rows: int
    keys: int
    warps: int
    stages: int
    registers: int | None = None  # at most, a thread; None leaves it to the compiler


def interpreting() -> bool:
    """Whether Triton runs its kernels as Python on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def too_old() -> str | None:
    """Why the installed Triton is not one these kernels are for; None where it is."""
    import triton

    found = str(triton.__version__)
    if tuple(map(int, found.split(".")[:2])) >= _OLDEST_TRITON:
        return None
    needed = ".".join(map(str, _OLDEST_TRITON))
    return f"the kernels need Triton {needed} or newer (torch 2.10 brings it); {found} is installed"


def padded(dim: int, beside: int = 0) -> int:
    """The power of two, at least 16, that holds a dim: what tensor cores multiply. At least 64
    where a kernel also multiplies tiles that are `beside` wide and that is more than 32: of a
    narrow tile that takes the place of a wide one, the assembler of Triton 3.6 loses the address.
    """
    least = 64 if beside > 32 else 16
    return max(least, 1 << max(dim - 1, 0).bit_length())


def value_chunk(value_dim: int, dim: int) -> int:
    """How much of a value one program carries."""
    return min(padded(value_dim, dim), max(128, padded(dim)))


def blocks(count: int, size: int) -> int:
    """⌈count / size⌉."""
    return -(-count // size)


def row_shape(dim: int, dtype: torch.dtype) -> Shape:
    """Of sweeps in which queries stay and keys pass."""
    wide = padded(dim)
    if dtype == torch.float64:
        return Shape(32, 32, 4, 1)
    if dtype == torch.float32:
        return Shape(64, 32, 4, 2) if wide <= 128 else Shape(32, 32, 4, 2)
    if wide <= 64:
        return Shape(128, 64, 4, 3)
    return Shape(128, 128, 8, 3) if wide == 128 else Shape(128, 64, 8, 2)


def column_shape(dim: int, dtype: torch.dtype) -> Shape:
    """Of sweeps in which keys stay and queries pass (here `keys` stay)."""
    wide = padded(dim)
    if dtype == torch.float64:
        return Shape(32, 32, 4, 1)
    if dtype == torch.float32:
        return Shape(32, 64, 4, 2) if wide <= 128 else Shape(32, 32, 4, 2)
    return Shape(64, 128, 4, 3) if wide <= 128 else Shape(64, 64, 4, 2)


def replay_shape(dim: int, dtype: torch.dtype, plain: bool) -> Shape:
    """Of the sweep for column mass and maps (`keys` stay): products as wide as the hardware
    multiplies, and two blocks at a time to a multiprocessor, one of which multiplies while the
    other takes powers. Masks that hide anything anywhere need room, so blocks are smaller. Sums
    are ordered by rows, which are the same for all."""
    wide = padded(dim)
    if dtype in (torch.float32, torch.float64) or wide > 128:
        return column_shape(dim, dtype)
    if wide == 128 and plain:
        return Shape(64, 256, 4, 3)
    return Shape(64, 128, 4, 3, registers=128 if plain else None)


def room(dim: int, dtype: torch.dtype) -> int:
    """KiB of shared memory that the largest tiles of any kernel take: a GPU's size above what the
    compiler says."""
    if padded(dim) <= 64:
        return 99
    return 227 if dtype == torch.float64 and padded(dim) > 128 else 163


def across(tensor: Tensor) -> bool:
    """Whether the copy engine can fetch its rows: aligned, and a dim apart from nothing."""
    batch, head, token, along = tensor.stride()
    apart = (batch | head | token) * tensor.element_size()  # 16 divides all of them or not this
    return (
        along == 1 and token > 0 and apart % 16 == 0 and tensor.data_ptr() % 16 == 0
        and tensor.numel() > 0
    )  # fmt: skip


def strides_of(tensor: Tensor) -> tuple[int, int, int]:
    """Of batch, head and token."""
    batch, head, token, *_ = tensor.stride()
    return batch, head, token


def options(bound: Bound, shape: Shape) -> dict[str, Any]:
    """What every kernel is compiled for; not to be changed."""
    dim = padded(bound.query.shape[-1])
    shape = shape._replace(stages=stages(bound, shape.stages))
    return _options(dim, bound.fast, bound.plain, bound.exact, shape, interpreting())


# KiB of shared memory that the largest half-precision tiles leave free, by their width and by how
# many are fetched ahead: of 99, of 163 (on Hopper, where they take more, of 227), of 163 (227)
_FREE = {64: {3: 33, 2: 49}, 128: {3: 2, 2: 67}, 256: {2: 18}}


def stages(bound: Bound, most: int) -> int:
    """How many tiles are fetched ahead, at most `most`; no number depends on it.

    What a mask or a bias brings for a tile waits in shared memory beside its keys and values:
    some vectors, a table's booleans or the bytes of a square, a bias of cells or distances once for
    every tile that is fetched ahead.
    """
    rule = bound.rule
    added = rule.by_distance if rule.bias is None else rule.bias
    if (bound.plain and added is None) or bound.query.element_size() > 2:
        return most
    wide = max(padded(bound.query.shape[-1]), 64)
    vectors = (rule.low, rule.low_2, rule.query_ids, rule.key_ids, rule.flags)
    taken = sum(vector is not None for vector in vectors)
    byte_wise = rule.table is not None or rule.spelt is not None
    taken += 0 if not byte_wise else 8 if wide == 64 else 32
    cells = 16 if wide == 128 else 8  # KiB of one byte each
    bias = 0 if added is None else cells * added.element_size()
    fits = (n for n in range(most, 1, -1) if taken + (n - 1) * bias <= _FREE[wide].get(n, 0))
    return next(fits, 1)


@cache
def _options(
    dim: int, fast: bool, plain: bool, exact: torch.dtype, shape: Shape, interpreted: bool
) -> dict[str, Any]:
    """Single precision is six half-precision products, which lose no more than fused multiply-adds
    do and run on tensor cores."""
    return {
        "D": dim,
        "FAST": fast,
        "PLAIN": plain,
        "PRECISION": "bf16x6" if exact == torch.float32 and not interpreted else "ieee",
        "WIDE": interpreted,
        "num_warps": shape.warps,
        "num_stages": shape.stages,
        **({} if shape.registers is None else {"maxnreg": shape.registers}),
        **EXACT,
    }


# ── launching ────────────────────────────────────────────────────────────────────────────────

_MANY = 4096  # launches
_NUMBERS = frozenset({type(None), bool, int, float})
_STRIDES = _NUMBERS | {tuple}
_ALIGNED = 16  # bytes; kernels are compiled for pointers that are so, and for others

# by everything a compiled kernel depends on: the kernel, and the values of its last parameters
_KNOWN: dict[Any, tuple[Any, tuple[Any, ...]]] = {}


def run(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """kernel[grid](*args, **constants): constants are the kernel's last parameters, in any order,
    and options."""
    compiled_kind, set_allocator = _triton()
    if not isinstance(kernel, compiled_kind):  # interpreted
        kernel[grid](*args, **constants)
        return
    # kernels live as long as their modules, so one's id is its own; its hash is that of its source
    where = id(kernel), torch.cuda.current_device()
    like = (*where, tuple(constants.items()), tuple(map(_kind, args)))
    known = _KNOWN.get(like)
    if known is None:
        set_allocator(_allocate)
        compiled = kernel[grid](*args, **constants)
        last = tuple(constants[name] for name in kernel.arg_names[len(args) :])
        if len(_KNOWN) >= _MANY:
            _KNOWN.clear()  # others may do so at any time too
        _KNOWN[like] = compiled, last
    else:
        compiled, last = known
        start(compiled, grid, (*args, *last))
    if _WATCHED.seen is not None:
        _WATCHED.seen.append(Launch(compiled, grid, (*args, *last)))


def start(compiled: Any, grid: tuple[int, ...], args: Sequence[Any]) -> None:
    """A compiled kernel, given all of its arguments."""
    # memory for the descriptors that kernels make of their tensors. Triton keeps who gives it per
    # thread, and gradients are computed in threads of their own
    _triton()[1](_allocate)
    compiled[(*grid, 1, 1)[:3]](*args)


class Launch(NamedTuple):
    """A kernel that was launched, with its arguments."""

    compiled: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]


class _Watched(threading.local):
    seen: list[Any] | None = None  # launches of this thread, while somebody collects them


_WATCHED = _Watched()


@contextmanager
def launches(seen: list[Any]) -> Iterator[None]:
    """What is launched within the block, by this thread, is appended."""
    before = _WATCHED.seen
    _WATCHED.seen = seen
    try:
        yield
    finally:
        _WATCHED.seen = before


@cache
def _triton() -> tuple[Any, Any]:
    """What a kernel is that Triton compiles, and who is told about memory; imported when a kernel
    is there, so that tile shapes can be asked for without Triton."""
    from triton import set_allocator
    from triton.runtime.jit import JITFunction

    return JITFunction, set_allocator


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
