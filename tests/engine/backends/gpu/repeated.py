"""Sweeps of interpreted kernels, repeated: steps are gone through as on a GPU, but a launch reads
its parameters where the table says they stand and interprets the kernel over them. A child
process, because Triton decides on import whether it interprets.

    TRITON_INTERPRET=1 python repeated.py
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

import regard
from regard.engine import api
from regard.engine.backends.gpu import (
    again,
    backward,
    columns,
    decode,
    diagonals,
    driver,
    few,
    forward,
    launch,
    marks,
    prune,
    replay,
    steps,
    top,
    wanted,
)
from regard.engine.backends.gpu.launch import Launch
from regard.engine.backends.gpu.steps import SweepSteps
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import Call, RowState
from regard.summary import ColumnSums, Entropy, Matching, MaxScore, Pooled, Top, Visible

LAUNCHED: list[Any] = []  # kernels, by the number that stands for a function
HELD: list[steps.Workspace] = []


class Compiled:
    """An interpreted kernel with what it was launched with, described as Triton describes one."""

    def __init__(self, kernel: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
        self.kernel, self.args, self.constants = kernel, args, constants
        self.function = len(LAUNCHED)
        LAUNCHED.append(self)
        kinds = {str(n): _kind(arg) for n, arg in enumerate(args)}
        self.src = SimpleNamespace(signature=kinds | dict.fromkeys(constants, "constexpr"))
        self.metadata = SimpleNamespace(num_ctas=1, num_warps=1, shared=0, global_scratch_size=64)
        leaves = [leaf for arg in args for leaf in _leaves(arg)]
        lines = [".param .f64 p" if isinstance(leaf, float) else ".param .u64 p" for leaf in leaves]
        self.asm = {"ptx": ".entry k(" + ",".join([*lines, *[".param .u64 p"] * 2]) + ")"}

    def run(self, grid: tuple[int, ...], table: Any) -> None:
        """With every tensor at the address that the table leads to."""
        places = iter(table)
        args = [_filled(arg, places) for arg in self.args]
        self.kernel[grid](*args, **self.constants)


def _kind(arg: Any) -> Any:
    if isinstance(arg, tuple):
        return tuple(map(_kind, arg))
    kinds = {bool: "i64", int: "i64", float: "fp64"}
    return "*any" if isinstance(arg, Tensor) else kinds.get(type(arg), "constexpr")


def _leaves(arg: Any) -> list[Any]:
    if isinstance(arg, tuple):
        return [leaf for part in arg for leaf in _leaves(part)]
    return [] if arg is None else [arg]


def _filled(arg: Any, places: Any) -> Any:
    if isinstance(arg, tuple):
        return getattr(type(arg), "_make", tuple)([_filled(part, places) for part in arg])
    if arg is None:
        return None
    at = next(places)
    if isinstance(arg, Tensor):
        return _there(ctypes.c_uint64.from_address(at).value, arg)
    read = ctypes.c_double if isinstance(arg, float) else ctypes.c_int64
    assert read.from_address(at).value == arg
    return arg


def _there(address: int, like: Tensor) -> Tensor:
    """The tensor at an address, of the shape of another."""
    for held in HELD[-1].tensors:
        if held is None:
            continue
        whole = torch.empty(0, dtype=torch.uint8).set_(held.untyped_storage())
        offset = address - whole.data_ptr()
        size = like.element_size()
        if 0 <= offset < max(1, whole.numel()) and offset % size == 0:
            of_kind = torch.empty(0, dtype=like.dtype).set_(held.untyped_storage())
            return of_kind.as_strided(like.shape, like.stride(), offset // size)
    raise LookupError(f"nothing is held at {address}")


def run(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """As the first launch does it."""
    with _disable_current_modes():  # what the interpreter does besides, no GPU does
        kernel[grid](*args, **constants)
    if launch._WATCHED.seen is not None:
        told = (*args, *constants.values())
        launch._WATCHED.seen.append(Launch(Compiled(kernel, args, constants), grid, told))


class KeptWorkspace(steps.Workspace):
    """Remembered, so that addresses can be looked up; poisoned, so that nothing old is read."""

    def __init__(self, made: SweepSteps, given: Any) -> None:
        super().__init__(made, given)
        self.tensors[0].fill_(0xFF)
        HELD.append(self)


def pretend() -> None:
    """Kernels are interpreted, and the driver is this file."""
    for module in (
        forward, backward, columns, decode, diagonals, few, marks, prune, replay, top, wanted,
    ):  # fmt: skip
        vars(module)["run"] = run
    vars(again)["interpreting"] = lambda: False
    vars(steps)["Workspace"] = KeptWorkspace
    vars(steps)["stream_of"] = lambda device: 0
    vars(driver)["launch"] = lambda kernel, grid, table, stream: LAUNCHED[kernel.function].run(
        grid, table
    )
    vars(driver)["clear"] = lambda at, size, stream: ctypes.memset(at, 0, size)


def parts(found: Any) -> list[Tensor]:
    return list(steps._walk(found))


def expect_repeated(sweep: Callable[[int], Any], name: str) -> None:
    """Twice as always, then over other numbers by steps, with the same bits."""
    again._KEPT.clear()
    for seed in (0, 1):
        sweep(seed)
    kept = list(again._KEPT.values())
    assert kept and all(isinstance(one, SweepSteps) for one in kept), f"{name}: not kept"
    found = parts(sweep(2))
    again._KEPT.clear()
    right = parts(sweep(2))
    assert len(found) == len(right) > 0
    for n, (one, other) in enumerate(zip(found, right, strict=True)):
        assert one.dtype == other.dtype, f"{name}: {n}"
        assert torch.equal(one, other), f"{name}: {n} differs"
    print(name, "ok", flush=True)


def call_of(seed: int, queries: int, keys: int, mask: Any, dtype: torch.dtype) -> Call:
    dice = torch.Generator().manual_seed(seed)
    q = torch.randn(1, 2, queries, 16, generator=dice).to(dtype)
    k, v = (torch.randn(1, 1, keys, 16, generator=dice).to(dtype) for _ in range(2))
    return api._call(q, k, v, mask, None, None, None, None, 0.0)


def state_of(seed: int, call: Call) -> RowState:
    dice = torch.Generator().manual_seed(seed)
    size = call.query.shape[:-1]
    return RowState(torch.randn(size, generator=dice) + 3, torch.rand(size, generator=dice))


def main() -> None:
    pretend()
    half, single = torch.bfloat16, torch.float32
    everything = (Entropy(), MaxScore(), Visible(), Top(3))
    problems = {
        "rows": (80, 90, regard.Causal(), single), "pruned": (70, 2100, regard.Window(900), half),
        "few": (2, 1100, None, half),
    }  # fmt: skip

    for name, problem in problems.items():

        def rows(seed: int, problem: Any = problem) -> Any:
            return TRITON.rows(call_of(seed, *problem), True, everything)

        def given(seed: int, problem: Any = problem) -> Any:
            call = call_of(seed, *problem)
            return TRITON.rows(call, False, (Top(3),), given=state_of(seed, call))

        def marked(seed: int, problem: Any = problem) -> Any:
            call = call_of(seed, *problem)
            own, other = (torch.arange(n)[None] % 7 for n in problem[:2])
            asked = (Entropy(), Matching(own, other))
            sums = ColumnSums(offsets=True)
            return TRITON.rows_with_columns(call, True, asked, sums, None)

        def mapped(seed: int, problem: Any = problem) -> Any:
            call = call_of(seed, *problem)
            maps = (Pooled(64), Pooled(24, "max"))
            return TRITON.rows_with_columns(
                call, True, (Entropy(), *maps), ColumnSums(seen=True), state_of(seed, call)
            )

        def summed(seed: int, problem: Any = problem) -> Any:
            call = call_of(seed, *problem)
            chosen = torch.arange(problem[0]) % (seed + 2) == 0
            y = torch.randn(1, 2, problem[0], 3, generator=torch.Generator().manual_seed(seed))
            asked = ColumnSums(seen=True, offsets=True)
            return TRITON.columns(call, state_of(seed, call), chosen, y, asked)

        def extreme(seed: int, problem: Any = problem) -> Any:
            call, asked = call_of(seed, *problem), ColumnSums(largest=True)
            return TRITON.columns(call, state_of(seed, call), None, None, asked)

        every = (rows, given, marked, mapped, summed, extreme)
        for sweep in every if name == "rows" else (rows, mapped):
            expect_repeated(sweep, f"{name} {sweep.__name__}")

    def learned(seed: int) -> Any:
        call = call_of(seed, 80, 90, regard.Causal(), single)
        outer = torch.randn_like(call.query)
        outer.copy_(torch.randn(outer.shape, generator=torch.Generator().manual_seed(seed)))
        shift, slope = state_of(seed, call)
        steep = slope[..., :1].expand(slope.shape)  # as the gradient of a sum comes
        return TRITON.backward(call, state_of(seed + 9, call), outer, shift, steep, mass=True)

    expect_repeated(learned, "backward")

    def trained(seed: int) -> Any:
        """As autograd calls it, where torch shows operations whole."""
        call = call_of(seed, 70, 75, regard.Causal(), half)
        leaves = [t.requires_grad_() for t in (call.query, call.key, call.value)]
        a = regard.attend(*leaves, mask=call.mask, implementation="triton")
        total = a.output.float().square().sum() + a.entropy().sum() + a.received().square().sum()
        return list(torch.autograd.grad(total, leaves))

    expect_repeated(trained, "trained")


if __name__ == "__main__":
    sys.exit(main())
