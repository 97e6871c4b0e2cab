"""Launches alike ask Triton once. A stand-in takes the launches and says who was asked."""

from __future__ import annotations

import importlib
import threading
from typing import Any, NamedTuple

import pytest
import torch
from triton.runtime.jit import JITFunction

from regard.engine.gpu import running
from regard.engine.gpu.running import run


class Compiled:
    """What Triton made of a kernel for some arguments."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        return lambda *args: self.log.append(("again", grid, args))


class Kernel(JITFunction[Any]):
    """Remembers its launches; its last two parameters are constants."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    @property
    def arg_names(self) -> list[str]:
        return ["x", "rule", "n", "BM", "BN"]

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*args: Any, **constants: Any) -> Compiled:
            self.log.append(("asked", grid, args, constants))
            return Compiled(self.log)

        return launch


class Rule(NamedTuple):
    heads: int
    scale: float
    least: int | None
    table: torch.Tensor | None = None


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(running, "_KNOWN", {})


X = torch.zeros(64, dtype=torch.bfloat16)
RULE = Rule(4, 0.5, None)
CONSTANTS = {"num_warps": 4, "BN": 64, "BM": 128}


def asked(kernel: Kernel, *args: Any, **constants: Any) -> bool:
    """Whether Triton was asked about this launch."""
    run(kernel, (3, 2), *args, **{**CONSTANTS, **constants})
    return kernel.log[-1][0] == "asked"


def test_the_second_launch_goes_straight_to_the_compiled_kernel() -> None:
    kernel, other = Kernel(), torch.ones(64, dtype=torch.bfloat16)
    run(kernel, (3, 2), X, RULE, 7, **CONSTANTS)
    run(kernel, (5,), other, Rule(4, 0.5, None), 7, **CONSTANTS)
    assert kernel.log[0] == ("asked", (3, 2), (X, RULE, 7), CONSTANTS)
    how, grid, args = kernel.log[1]
    assert (how, grid) == ("again", (5, 1, 1))
    assert args[0] is other and args[1:] == (RULE, 7, 128, 64)  # constants in the kernel's order


def test_whatever_a_kernel_may_be_compiled_for_asks_again() -> None:
    kernel = Kernel()
    table = torch.zeros(8)
    launches = [
        (X, RULE, 7),
        (X, RULE, 8),
        (X, RULE, None),
        (X.float(), RULE, 7),
        (X[1:], RULE, 7),  # two bytes from where a pointer is aligned
        (X, Rule(4, 0.25, None), 7),
        (X, Rule(4, 0.5, 0), 7),
        (X, Rule(4, 0.5, None, table), 7),
        (X, Rule(4, 0.5, None, table.to(torch.int32)), 7),
        (X, Rule(4, 0.5, None, table[1:]), 7),
    ]
    for _ in range(2):
        kernel.log.clear()
        answers = [asked(kernel, *launch) for launch in launches]
        assert answers == [_ == 0] * len(launches)
    assert not asked(kernel, X[8:], RULE, 7)  # aligned again
    assert asked(kernel, X, RULE, 7, BM=64) and asked(kernel, X, RULE, 7, num_warps=8)
    assert asked(Kernel(), X, RULE, 7)


def test_every_gpu_has_kernels_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    assert asked(kernel, X, RULE, 7) and not asked(kernel, X, RULE, 7)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert asked(kernel, X, RULE, 7) and not asked(kernel, X, RULE, 7)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_MANY", 10)
    kernel = Kernel()
    for n in range(100):
        assert asked(kernel, X, RULE, n) and len(running._KNOWN) <= 10


def test_an_interpreted_kernel_is_run_as_it_is() -> None:
    class Interpreted:
        def __getitem__(self, grid: Any) -> Any:
            return lambda *args, **constants: found.append((grid, args, constants))

    found: list[Any] = []
    for _ in range(2):
        run(Interpreted(), (3,), 1, 2, BM=4)
    assert found == [((3,), (1, 2), {"BM": 4})] * 2


def test_whoever_launches_has_memory_for_descriptors() -> None:
    """Triton keeps it per thread; the first launch may come from the thread of a backward."""
    allocation = importlib.import_module("triton.runtime._allocation")
    found = {}

    def launch(name: str) -> None:
        run(Kernel(), (1,), X, RULE, 7, **CONSTANTS)
        found[name] = allocation._allocator.get()

    for name in ("backward", "another"):
        thread = threading.Thread(target=launch, args=(name,))
        thread.start()
        thread.join()
    launch("main")
    assert len(found) == 3
    assert not any(isinstance(who, allocation.NullAllocator) for who in found.values())
