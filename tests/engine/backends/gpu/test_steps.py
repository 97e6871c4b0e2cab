"""What a sweep did is done again over other tensors: on a machine of our own, which reads its
parameters where the table says they stand, as the driver does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.engine.backends.gpu import driver, launch, steps
from regard.engine.backends.gpu.again import watched
from regard.engine.backends.gpu.launch import Launch
from regard.engine.backends.gpu.steps import SweepSteps, steps_of

DECLARED = {"*": "u64", "i32": "u32", "i64": "u64", "fp32": "f32", "fp64": "f64", "i1": "u8"}
READ = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float}


class Machine:
    """Kernels in Python; each gets its parameters as numbers, tensors as addresses."""

    def __init__(self) -> None:
        self.kernels: list[tuple[list[str], Callable[..., None]]] = []
        self.launched = 0

    def compiled(self, run: Callable[..., None], scratch: int = 0, **kinds: Any) -> Any:
        """Written as Triton describes one."""
        flat: list[str] = []
        _flat(tuple(kinds.values()), flat)
        self.kernels.append((flat, run))
        lines = [f".param .{DECLARED[kind[0] if kind[0] == '*' else kind]} p" for kind in flat]
        lines += [".param .u64 .ptr .global .align 1 p"] * 2
        told = SimpleNamespace(
            num_ctas=1, num_warps=4, shared=0, global_scratch_size=scratch, launch_pdl=False,
            launch_cooperative_grid=False, profile_scratch_size=0,
        )  # fmt: skip
        return SimpleNamespace(
            function=len(self.kernels) - 1, metadata=told, src=SimpleNamespace(signature=kinds),
            asm={"ptx": ".visible .entry k(\n" + ",\n".join(lines) + "\n)\n{ }"},
        )  # fmt: skip

    def run(self, compiled: Any, *args: Any) -> None:
        """As the first launch does it."""
        told = driver.parameters(compiled, args)
        if told is not None:
            numbers: list[Any] = [getattr(p, "value", p) for p in told]
            numbers = [p.data_ptr() if isinstance(p, Tensor) else p for p in numbers]
            self.kernels[compiled.function][1](*numbers, None)
        if launch._WATCHED.seen is not None:
            launch._WATCHED.seen.append(Launch(compiled, (2,), args))

    def launch(self, kernel: driver.Kernel, grid: Any, table: Any, stream: int) -> None:
        """As the driver does it."""
        self.launched += 1
        kinds, run = self.kernels[kernel.function]
        assert grid == (2, 1, 1) and len(table) == len(kinds) + 2
        read = [READ.get(kind, ctypes.c_uint64) for kind in [*kinds, "*", "*"]]
        numbers = [kind.from_address(at).value for kind, at in zip(read, table, strict=True)]
        assert numbers.pop() == 0
        assert (numbers[-1] != 0) == (kernel.scratch != 0)
        run(*numbers)


def _flat(kind: Any, found: list[str]) -> None:
    if isinstance(kind, tuple):
        for one in kind:
            _flat(one, found)
    elif kind != "constexpr":
        found.append(kind)


def there(address: int, count: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(driver, "launch", made.launch)
    monkeypatch.setattr(driver, "clear", lambda at, size, stream: ctypes.memset(at, 0, size))
    monkeypatch.setattr(steps, "stream_of", lambda device: 0)
    return made


class Answer(NamedTuple):
    total: Tensor
    parts: dict[str, Any]


def add(n: int) -> Callable[..., None]:
    """out += a·by, where some memory is the programs' own."""

    def run(a: int, out: int, by: float, scratch: int | None) -> None:
        there(out, n)[:] += there(a, n) * np.float32(by)

    return run


def seen_of(sweep: Callable[..., Any], *given: Tensor) -> tuple[list[Any], Any]:
    seen: list[Any] = []
    with watched(seen):
        found = sweep(*given)
    return seen, found


def kept(sweep: Callable[..., Any], *given: Tensor) -> SweepSteps:
    seen, found = seen_of(sweep, *given)
    made = steps_of(given, seen, found)
    assert made is not None
    return made


KIND: dict[str, Any] = {"a": "*fp32", "out": "*fp32", "rule": ("fp32", "constexpr")}


def test_launches_zeros_views_and_operations(machine: Machine) -> None:
    kernel = machine.compiled(add(6), scratch=128, **KIND)

    def sweep(x: Tensor, y: Tensor) -> Answer:
        aside = torch.zeros(2, 3)  # in the memory
        machine.run(kernel, x, aside, (2.0, 1))
        total = torch.empty(3, 6)
        total[0].zero_()
        machine.run(kernel, aside, total[0], (1.0, 1))
        total[1].fill_(7.0)
        total[2].copy_(torch.ops.aten.contiguous(y.T).T.reshape(-1) + 1)
        doubled = torch.zeros_like(y)
        machine.run(kernel, y, doubled, (2.0, 1))
        return Answer(total, {"turned": doubled.to(torch.int64).T, "none": None, "n": 3})

    x, y = torch.randn(2, 3), torch.arange(6.0).view(2, 3)
    made = kept(sweep, x, y)
    assert machine.launched == 0 and len(made.steps) == 13
    for _ in range(3):
        given = torch.randn(2, 3), torch.randint(9, (2, 3)).float()
        found, right = made.again(given), sweep(*given)
        assert torch.equal(found.total, right.total)
        assert torch.equal(found.parts["turned"], right.parts["turned"])
        assert (found.parts["none"], found.parts["n"]) == (None, 3)
    assert machine.launched == 9
    # doubled, aside and its zeros twice over; programs have 128 bytes each of two
    assert made.memory <= 3 * 256 + 256


def test_parts_of_memory_that_are_used_together_lie_apart(machine: Machine) -> None:
    kernel = machine.compiled(add(6), **KIND)

    def sweep(x: Tensor) -> Tensor:
        held = [torch.zeros(6) for _ in range(3)]
        for n, one in enumerate(held):
            machine.run(kernel, x, one, (float(n + 1), 1))
        for _ in range(20):  # each of them for a moment only
            more = torch.zeros(6)
            machine.run(kernel, held[0], more, (1.0, 1))
            machine.run(kernel, more, held[2], (1.0, 1))
        total = torch.zeros(6)
        for one in held:
            machine.run(kernel, one, total, (1.0, 1))
        return total

    made = kept(sweep, torch.randn(6))
    given = torch.randn(6)
    assert torch.equal(made.again([given]), sweep(given))
    assert made.memory <= 4 * 256


def test_answers_are_new_every_time(machine: Machine) -> None:
    kernel = machine.compiled(add(4), **KIND)

    def sweep(x: Tensor) -> Tensor:
        out = torch.zeros(4)
        machine.run(kernel, x, out, (1.0, 1))
        return out

    made = kept(sweep, torch.ones(4))
    found = [made.again([torch.full((4,), float(n))]) for n in range(3)]
    assert [one.tolist() for one in found] == [[float(n)] * 4 for n in range(3)]


def test_the_same_tensor_twice(machine: Machine) -> None:
    kernel = machine.compiled(add(4), **KIND)

    def sweep(x: Tensor, y: Tensor) -> Tensor:
        out = torch.zeros(4)
        machine.run(kernel, x, out, (1.0, 1))
        machine.run(kernel, y, out, (1.0, 1))
        return out

    x = torch.randn(4)
    made = kept(sweep, x, x)
    y = torch.randn(4)
    assert torch.equal(made.again([y, y]), y + y)


def copying(machine: Machine, kernel: Any) -> Callable[[Tensor], Tensor]:
    """A sweep of one launch."""

    def sweep(x: Tensor) -> Tensor:
        out = torch.zeros(4)
        machine.run(kernel, x, out, (1.0, 1))
        return out

    return sweep


def elsewhere(machine: Machine) -> Callable[[Tensor], Any]:
    kernel, other = machine.compiled(add(4), **KIND), torch.ones(4)

    def sweep(x: Tensor) -> Tensor:
        out = torch.zeros(4)
        machine.run(kernel, other, out, (1.0, 1))
        return out

    return sweep


def fetched(machine: Machine) -> Callable[[Tensor], Any]:
    return lambda x: torch.zeros(4) + float(x[0])


def unknown(machine: Machine) -> Callable[[Tensor], Any]:
    """Its code declares one more than Triton's description has."""
    kernel = machine.compiled(add(4), **KIND)
    kernel.asm["ptx"] = kernel.asm["ptx"].replace("\n)", ",\n.param .u32 p\n)")

    return copying(machine, kernel)


def in_clusters(machine: Machine) -> Callable[[Tensor], Any]:
    kernel = machine.compiled(add(4), **KIND)
    kernel.metadata.num_ctas = 2

    return copying(machine, kernel)


@pytest.mark.parametrize("kind", [elsewhere, fetched, unknown, in_clusters])
def test_what_steps_cannot_say(
    kind: Callable[[Machine], Callable[[Tensor], Any]], machine: Machine
) -> None:
    x = torch.randn(4)
    seen, found = seen_of(kind(machine), x)
    assert steps_of([x], seen, found) is None
