"""How kernels are launched: tiles, what the copy engine can read, that Triton is asked once."""

from __future__ import annotations

import importlib
import threading
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from triton.runtime.jit import JITFunction

import regard
from regard.engine import plan
from regard.engine.backends.gpu import launch, sweeps
from regard.engine.backends.gpu.launch import (
    Shape,
    across,
    column_shape,
    interpreting,
    options,
    padded,
    replay_shape,
    room,
    row_shape,
    run,
    strides_of,
    value_chunk,
)
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import Problem
from regard.shapes import AttentionShape

HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64


def problem(dim: int, dtype: torch.dtype = HALF) -> Problem:
    return Problem(
        shape=AttentionShape.of(*[(1, 2, 8, dim)] * 3), dtype=dtype, device="cuda",
        mask=regard.Window(4), bias=None, softcap=False, sink=False,
        dropout=False, gradients=True, bias_gradient=False, summaries=frozenset(),
    )  # fmt: skip


def test_the_interpreter_is_asked_for_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, said in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("TRITON_INTERPRET", value)
        assert interpreting() is said


# ── room ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("there", "dim", "dtype", "serves"),
    [
        (99, 64, HALF, True), (99, 64, DOUBLE, True), (99, 128, HALF, False),
        (99, 80, HALF, False), (163, 128, HALF, True), (163, 256, SINGLE, True),
        (163, 256, DOUBLE, False), (227, 256, DOUBLE, True), (None, 256, DOUBLE, True),
    ],
)  # fmt: skip
def test_a_small_gpu_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, there: int | None, dim: int, dtype: torch.dtype, serves: bool
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(sweeps, "_shared_memory", lambda: there)
    said = TRITON.reasons(problem(dim, dtype))
    need = room(dim, dtype)
    reason = f"head dim {dim} takes {need} KiB of shared memory, this GPU has {there}"
    assert said == ([] if serves else [reason])


def test_where_there_is_no_room_another_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(sweeps.TritonSweeps, "unavailable", lambda self: [])
    monkeypatch.setattr(sweeps, "_shared_memory", lambda: 163)
    assert plan.choose(problem(128), None).name == "triton"
    monkeypatch.setattr(sweeps, "_shared_memory", lambda: 99)
    assert plan.choose(problem(128), None).name == "dense"


def test_room_is_what_the_gpu_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        shared_memory_per_block_optin = 232448

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert sweeps._shared_memory() is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties())
    assert sweeps._shared_memory() == 227
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: object())
    assert sweeps._shared_memory() is None


def test_wider_heads_never_need_less_room() -> None:
    for dtype in (HALF, SINGLE, DOUBLE):
        needs = [room(dim, dtype) for dim in (1, 64, 65, 128, 129, 256)]
        assert needs == sorted(needs)


# ── tiles ────────────────────────────────────────────────────────────────────────────────────


def test_wide_numbers_and_heads_get_smaller_tiles() -> None:
    for shape in (row_shape, column_shape):
        for dim in (64, 128, 256):
            cells = [
                made.rows * made.keys for made in (shape(dim, d) for d in (HALF, SINGLE, DOUBLE))
            ]
            assert cells == sorted(cells, reverse=True)
            assert shape(dim, torch.float16) == shape(dim, HALF)


@pytest.mark.parametrize("dtype", [HALF, torch.float16, SINGLE, DOUBLE], ids=str)
def test_the_replay_orders_its_sums_alike_under_any_mask(dtype: torch.dtype) -> None:
    """By rows; blocks of keys may differ. A tile is whole strips of 16 queries."""
    for dim in (5, 64, 80, 128, 256):
        plain, any_mask = (replay_shape(dim, dtype, so) for so in (True, False))
        assert plain.rows == any_mask.rows and plain.rows % 16 == 0
        assert plain.keys % plain.rows == 0 and any_mask.keys % any_mask.rows == 0
        assert plain == replay_shape(padded(dim), dtype, True)


def test_registers_are_limited_where_a_shape_says_so() -> None:
    class Plain:
        query, exact, fast, plain = torch.zeros(1, 1, 8, 64, dtype=HALF), SINGLE, True, True
        rule = SimpleNamespace(bias=None, by_distance=None)

    few, any_number = Shape(64, 128, 4, 3, registers=96), Shape(64, 128, 4, 3)
    assert options(Plain(), few)["maxnreg"] == 96  # type: ignore[arg-type]
    assert "maxnreg" not in options(Plain(), any_number)  # type: ignore[arg-type]


def test_a_chunk_of_values_is_no_wider_than_a_head_or_128() -> None:
    for dim in (5, 64, 128, 200, 256):
        for value_dim in (1, 40, 128, 300, 1000):
            chunk = value_chunk(value_dim, dim)
            assert chunk & (chunk - 1) == 0 and 16 <= chunk <= max(128, padded(dim))
            assert chunk >= min(value_dim, 128)


@pytest.mark.parametrize(
    ("tensor", "fetched"),
    [
        (torch.zeros(2, 3, 8, 64, dtype=HALF), True),
        (torch.zeros(2, 8, 3, 64, dtype=HALF).transpose(1, 2), True),
        (torch.zeros(2, 3, 8, 5, dtype=HALF), False),  # rows 10 bytes apart
        (torch.zeros(2, 3, 8, 4, dtype=SINGLE), True),
        (torch.zeros(2, 3, 8, 65, dtype=HALF)[..., 1:], False),  # not aligned
        (torch.zeros(2, 3, 64, 8, dtype=HALF).mT, False),  # turned
        (torch.zeros(2, 3, 1, 64, dtype=HALF).expand(2, 3, 8, 64), False),  # one row for all
        (torch.zeros(2, 3, 0, 64, dtype=HALF), False),
    ],
    ids=["plain", "heads last", "odd", "16 bytes", "shifted", "turned", "expanded", "empty"],
)
def test_what_the_copy_engine_can_fetch(tensor: torch.Tensor, fetched: bool) -> None:
    assert across(tensor) is fetched


def test_strides_are_those_of_batch_head_and_token() -> None:
    assert strides_of(torch.zeros(2, 3, 8, 64)) == (1536, 512, 64)
    assert strides_of(torch.zeros(2, 8, 3, 64).transpose(1, 2)) == (1536, 64, 192)


# ── launches: a stand-in takes them and says who was asked ───────────────────────────────────


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
    monkeypatch.setattr(launch, "_KNOWN", {})


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
    monkeypatch.setattr(launch, "_MANY", 10)
    kernel = Kernel()
    for n in range(100):
        assert asked(kernel, X, RULE, n) and len(launch._KNOWN) <= 10


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

    def begin(name: str) -> None:
        run(Kernel(), (1,), X, RULE, 7, **CONSTANTS)
        found[name] = allocation._allocator.get()

    for name in ("backward", "another"):
        thread = threading.Thread(target=begin, args=(name,))
        thread.start()
        thread.join()
    begin("main")
    assert len(found) == 3
    assert not any(isinstance(who, allocation.NullAllocator) for who in found.values())
