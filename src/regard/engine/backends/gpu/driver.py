"""Launching a kernel that Triton has compiled, by the CUDA driver itself.

Triton's launcher looks at every argument again at every launch. Where the numbers among them are
known to be the same, all that is left is a table of addresses: the driver is told once where each
argument stands, and reads it there at every launch.

What a compiled kernel takes is read from Triton's own description of it and compared with what its
machine code declares; where the two do not agree, as with a Triton that this file does not know,
the kernel is not launched from here.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

_WARP = 32
_NUMBERS: dict[str, Any] = {
    "i1": ctypes.c_int8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "u1": ctypes.c_uint8, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}  # fmt: skip
_ADDRESS = 8  # bytes
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: a thread that has not used the GPU yet
_ENTRY = re.compile(r"\.entry\s+\w+\s*\((.*?)\)", re.DOTALL)
_DECLARED = re.compile(r"\.param\s+\.[busf](\d+)\s")


class Kernel(NamedTuple):
    """What the driver is told of a compiled kernel at every launch."""

    function: int
    threads: int
    shared: int  # bytes
    scratch: int  # bytes of memory that each program gets


def kernel_of(compiled: Any) -> Kernel | None:
    """None where it takes more than the plain launch that is done here."""
    told = compiled.metadata
    special = ("launch_cooperative_grid", "launch_pdl", "profile_scratch_size")
    if told.num_ctas != 1 or any(getattr(told, name, 0) for name in special):
        return None
    scratch = getattr(told, "global_scratch_size", 0)
    return Kernel(compiled.function, told.num_warps * _WARP, told.shared, scratch)


def parameters(compiled: Any, args: Sequence[Any]) -> list[Tensor | Any] | None:
    """The kernel's parameters in order: tensors, and numbers as the machine reads them. None where
    that is not what its code declares."""
    found: list[Any] = []
    for kind, arg in zip(compiled.src.signature.values(), args, strict=True):
        if not _flatten(kind, arg, found):
            return None
    widths = [_ADDRESS if isinstance(one, Tensor) else ctypes.sizeof(one) for one in found]
    return found if _declared(compiled) == [*widths, _ADDRESS, _ADDRESS] else None


def _flatten(kind: Any, arg: Any, found: list[Any]) -> bool:
    """Whether it can be passed on from here."""
    if isinstance(kind, tuple):
        return all(_flatten(k, a, found) for k, a in zip(kind, arg, strict=True))
    if kind == "constexpr":
        return True
    if kind.startswith("*"):
        found.append(arg)
        return isinstance(arg, Tensor)
    if kind in _NUMBERS:
        found.append(_NUMBERS[kind](arg))
        return True
    return False


def _declared(compiled: Any) -> list[int]:
    """Bytes of each parameter; two that Triton adds, for memory of its own, come last."""
    entry = _ENTRY.search(compiled.asm["ptx"])
    return [] if entry is None else [int(bits) // 8 for bits in _DECLARED.findall(entry[1])]


def launch(kernel: Kernel, grid: tuple[int, int, int], table: Any, stream: int) -> None:
    """`table` says where each parameter stands."""
    function, threads, shared, _ = kernel
    _told(_driver().cuLaunchKernel, function, *grid, threads, 1, 1, shared, stream, table, None)


def clear(address: int, size: int, stream: int) -> None:
    """Bytes to zero."""
    _told(_driver().cuMemsetD8Async, address, 0, size, stream)


def _told(function: Any, *args: Any) -> None:
    status = function(*args)
    if status == _NO_CONTEXT:
        torch.cuda.set_device(torch.cuda.current_device())  # makes one
        status = function(*args)
    if status:
        _refuse(status)


def _refuse(status: int) -> None:
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(status, ctypes.byref(text))
    raise RuntimeError(f"CUDA error {status}: {(text.value or b'unknown').decode()}")


@cache
def _driver() -> Any:
    """The driver's library, which keeps Python's lock while it is called: a launch is shorter than
    giving the lock away."""
    library = ctypes.PyDLL("libcuda.so.1")
    number, address = ctypes.c_uint, ctypes.c_void_p
    library.cuLaunchKernel.argtypes = [address, *[number] * 7, address, address, address]
    library.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, address]
    return library
