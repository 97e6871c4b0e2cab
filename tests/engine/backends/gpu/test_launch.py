"""How kernels are launched: Triton is asked once for a kind of call, on the GPU that holds the
tensors; grids and tiles are such as a GPU takes."""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from triton.runtime.jit import JITFunction

import regard
from regard.engine import api
from regard.engine.backends.gpu import launch, replay, sweeps
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.launch import (
    across,
    blocks,
    interpreting,
    options,
    padded,
    replay_shape,
    run,
    stages,
    value_chunk,
)
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import RowState
from regard.mask import Causal, Mask

HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64


def test_the_interpreter_is_asked_for_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, asked in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("TRITON_INTERPRET", value)
        assert interpreting() is asked


# ── Triton is asked once ─────────────────────────────────────────────────────────────────────


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
        def begin(*args: Any, **constants: Any) -> Compiled:
            self.log.append(("asked", grid, args, constants))
            return Compiled(self.log)

        return begin


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


def asks(kernel: Kernel, *args: Any, **constants: Any) -> bool:
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


def test_whatever_a_kernel_may_be_compiled_for_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, table = Kernel(), torch.zeros(8)
    launches = [
        (X, RULE, 7), (X, RULE, 8), (X, RULE, None), (X.float(), RULE, 7),
        (X[1:], RULE, 7),  # two bytes from where a pointer is aligned
        (X, Rule(4, 0.25, None), 7), (X, Rule(4, 0.5, 0), 7), (X, Rule(4, 0.5, None, table), 7),
        (X, Rule(4, 0.5, None, table.to(torch.int32)), 7), (X, Rule(4, 0.5, None, table[1:]), 7),
    ]  # fmt: skip
    for again in (False, True):
        assert [asks(kernel, *one) for one in launches] == [not again] * len(launches)
    assert not asks(kernel, X[8:], RULE, 7)  # aligned again
    assert asks(kernel, X, RULE, 7, BM=64) and asks(kernel, X, RULE, 7, num_warps=8)
    assert asks(Kernel(), X, RULE, 7)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)  # which has kernels of its own
    assert asks(kernel, X, RULE, 7) and not asks(kernel, X, RULE, 7)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_MANY", 10)
    kernel = Kernel()
    for n in range(30):
        assert asks(kernel, X, RULE, n) and len(launch._KNOWN) <= 10


def test_whoever_launches_has_memory_for_descriptors() -> None:
    """Triton keeps it per thread; the first launch may come from the thread of a backward."""
    allocation = importlib.import_module("triton.runtime._allocation")
    allocators = {}

    def begin(name: str) -> None:
        run(Kernel(), (1,), X, RULE, 7, **CONSTANTS)
        allocators[name] = allocation._allocator.get()

    for name in ("backward", "another"):
        thread = threading.Thread(target=begin, args=(name,))
        thread.start()
        thread.join()
    begin("main")
    assert len(allocators) == 3
    assert not any(isinstance(who, allocation.NullAllocator) for who in allocators.values())


@pytest.mark.parametrize(("number", "switched"), [(-1, []), (0, []), (1, [1])])
@pytest.mark.parametrize("name", ["rows", "columns", "rows_with_columns", "cells", "backward"])
def test_kernels_start_where_the_tensors_are(
    name: str, number: int, switched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton launches on the current GPU, here 0; models are spread over several."""
    seen: list[Any] = []

    @contextmanager
    def device(number: int) -> Iterator[None]:
        seen.append(number)
        yield

    def bound(call: Any) -> Any:
        seen.append("bound")
        raise LookupError

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(sweeps, "bind", bound)
    sweep = getattr(TRITON, name)
    call = SimpleNamespace(
        query=SimpleNamespace(get_device=lambda: number), shape=None, score=None,
        mask=SimpleNamespace(is_flat=False),
    )  # fmt: skip
    with pytest.raises(LookupError):
        sweep(call, *[()] * (len(inspect.signature(sweep).parameters) - 1))
    assert seen == [*switched, "bound"]


# ── grids ────────────────────────────────────────────────────────────────────────────────────

SECOND_AXIS = 65535  # programs that CUDA takes there


@pytest.fixture
def replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[tuple[int, ...], bool, int]]:
    """The grid of a replay over keys without memory, whether the kernel takes it as turned, and
    how many blocks of keys there are."""

    def of(keys: int, mask: Mask | None, heads: int = 3) -> tuple[tuple[int, ...], bool, int]:
        launches: dict[str, Any] = {}

        def begin(kernel: Any, grid: Any, *_: Any, **words: Any) -> None:
            launches[getattr(kernel, "__name__", None) or kernel.fn.__name__] = grid, words

        monkeypatch.setattr(replay, "run", begin)
        query = torch.zeros(1, heads, 1, 128, dtype=torch.bfloat16)
        key = query.expand(1, heads, keys, 128)
        bound = bind(api._call(query, key, key[..., :0], mask, None, None, None, None, 0.0))
        rows = torch.zeros(1, heads, 1)
        replay.replay(bound, RowState(rows, rows))
        grid, words = launches["_replay"]
        return grid, words["TURNED"], blocks(keys, words["BN"])

    return of


@pytest.mark.parametrize("keys", [1, 100_000])
def test_long_walks_go_first_under_a_causal_mask(keys: int, replayed: Any) -> None:
    """Programs start along the first axis: heads there, so that block 0 of every head starts."""
    grid, turned, many = replayed(keys, Causal())
    assert turned and grid == (3, many)
    grid, turned, many = replayed(keys, None)
    assert not turned and grid == (many, 3)


def test_more_blocks_than_the_second_axis_takes_stay_on_the_first(replayed: Any) -> None:
    keys = 2**20 // replayed(2**20, Causal())[2] * SECOND_AXIS
    grid, turned, many = replayed(keys, Causal(), heads=1)
    assert turned and grid == (1, many) == (1, SECOND_AXIS)
    grid, turned, many = replayed(keys + 1, Causal(), heads=1)
    assert not turned and grid == (many, 1) and many > SECOND_AXIS
    grid, turned, many = replayed(5, Causal(), heads=100_000)
    assert turned and grid == (100_000, many)


# ── tiles ────────────────────────────────────────────────────────────────────────────────────


def test_sizes_are_powers_of_two_that_hold_what_is_asked() -> None:
    assert [padded(n) for n in (0, 1, 16, 17, 64, 100, 129)] == [16, 16, 16, 32, 64, 128, 256]
    assert [value_chunk(n, 64) for n in (3, 64, 100, 1000)] == [64, 64, 128, 128]
    assert [value_chunk(3, n) for n in (32, 33)] == [16, 64]
    assert [value_chunk(n, 200) for n in (129, 1000)] == [256, 256]
    assert [blocks(n, 64) for n in (0, 1, 64, 65)] == [0, 1, 1, 2]


@pytest.mark.parametrize("dtype", [HALF, torch.float16, SINGLE, DOUBLE], ids=str)
def test_the_replay_orders_its_sums_alike_under_any_mask(dtype: torch.dtype) -> None:
    """By rows; blocks of keys may differ. A tile is whole strips of 16 queries."""
    for dim in (5, 64, 80, 128, 256):
        plain, any_mask = (replay_shape(dim, dtype, so) for so in (True, False))
        assert plain.rows == any_mask.rows and plain.rows % 16 == 0
        assert plain.keys % plain.rows == 0 and any_mask.keys % any_mask.rows == 0
        assert plain == replay_shape(padded(dim), dtype, True)


def bound_of(dtype: torch.dtype = HALF, dim: int = 128, **rule: Any) -> Bound:
    """A call of 70 queries and 130 keys."""
    query, key = (torch.zeros(1, 2, n, dim, dtype=dtype) for n in (70, 130))
    given = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None} | rule
    return bind(api._call(query, key, key, *given.values(), 0.0))


def test_tiles_are_fetched_ahead_as_far_as_there_is_room() -> None:
    table, bias = torch.ones(70, 130, dtype=torch.bool), torch.zeros(70, 130)
    flags = regard.Padding(torch.arange(130) % 3 > 0)
    assert stages(bound_of(), 3) == stages(bound_of(mask=Causal()), 3) == 3
    assert stages(bound_of(mask=flags), 3) == 3
    assert stages(bound_of(mask=table), 3) == stages(bound_of(bias=bias), 3) == 2
    assert stages(bound_of(bias=regard.RelativeBias(torch.zeros(32, 2))), 3) == 2
    assert stages(bound_of(mask=table, bias=bias.bfloat16()), 3) == 2
    assert stages(bound_of(mask=table, bias=bias), 3) == 1
    assert stages(bound_of(mask=table, bias=bias, dim=256), 2) == 1
    assert stages(bound_of(mask=table, bias=bias, dim=64), 3) == 2
    assert stages(bound_of(SINGLE, mask=table, bias=bias), 2) == 2
    registers = [options(bound_of(), replay_shape(128, HALF, so)).get("maxnreg") for so in (1, 0)]
    assert registers == [replay_shape(128, HALF, so).registers for so in (True, False)]


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
