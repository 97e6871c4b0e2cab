"""Sweeps alike are repeated from the third on, over the tensors of each call; nothing is kept of
them but steps."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from each.conftest import call_of
from regard.engine.backend import RowAnswers
from regard.engine.backends.gpu import again, driver, launch, steps
from regard.engine.backends.gpu.again import repeated, watched
from regard.engine.backends.gpu.launch import Launch
from regard.engine.backends.gpu.steps import SweepSteps, steps_of
from regard.engine.call import Call, RowState
from regard.summary import Entropy, Summary, Visible
from regard.testing import Inputs

ASKED = (Entropy(),)


class Sweeps:
    """output = v·scale, peak = Σ q, log = Σ k, entropy = both, more where it is given."""

    name = "ours"

    def __init__(self) -> None:
        self.full = 0
        self.also: Tensor | None = None  # a tensor from elsewhere

    @repeated
    def rows(
        self, call: Call, output: bool, measures: tuple[Summary, ...],
        given: RowState | None = None, mass: bool = False,
    ) -> RowAnswers:  # fmt: skip
        self.full += 1
        state = RowState(call.query.sum(-1), call.key.sum(-1))
        entropy = state.peak + state.log if given is None else state.peak + given.log
        entropy = entropy if self.also is None else entropy + self.also
        made = call.value * call.score.scale if output else None
        return RowAnswers(made, state, dict.fromkeys(measures, entropy))

    def expect(self, call: Call) -> RowAnswers:
        """Right, whoever computed it."""
        answers = self.rows(call, True, ASKED)
        assert answers.output is not None
        torch.testing.assert_close(answers.output, call.value * call.score.scale)
        torch.testing.assert_close(answers.state.peak, call.query.sum(-1))
        total = answers.state.peak + answers.state.log
        torch.testing.assert_close(answers.measured[Entropy()], total)
        return answers


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    monkeypatch.setattr(again, "interpreting", lambda: False)
    monkeypatch.setattr(again, "_KEPT", {})
    monkeypatch.setattr(steps, "stream_of", lambda device: 0)
    return Sweeps()


def three(*shape: int) -> list[Tensor]:
    return [torch.randn(shape or (2, 3, 5, 4)) for _ in range(3)]


def call(*tensors: Tensor, **options: Any) -> Call:
    return call_of(Inputs(*tensors, options))


def test_other_tensors_take_their_places_and_none_is_kept_alive(sweep: Sweeps) -> None:
    """Two that are one are of another kind."""
    gone, places = [], set()
    for _ in range(4):
        x, y = three()[:2]
        for given in (three(), (x, x, x), (x, y, y), (x, y, x)):
            asked = call(*given)
            answers = sweep.expect(asked)
            assert answers.output is not None
            gone += [weakref.ref(t) for t in (asked.query, answers.output, *answers.state)]
    assert sweep.full == 2 * 4
    assert all(isinstance(kept, SweepSteps) for kept in again._KEPT.values())
    held = [sweep.expect(call(*three())) for _ in range(3)]
    places = {answers.output.data_ptr() for answers in held if answers.output is not None}
    assert len(places) == 3
    del x, y, given, asked, answers
    gc.collect()
    assert all(one() is None for one in gone)


def test_what_is_not_alike_is_swept_anew(sweep: Sweeps) -> None:
    calls = [
        call(*three()), call(*three(2, 3, 6, 4)),
        call(*[t.transpose(1, 2).contiguous().transpose(1, 2) for t in three()]),
        call(*[torch.randn(121)[1:].view(2, 3, 5, 4) for _ in range(3)]),
        call(*three(), scale=0.25), call(*three(), mask=regard.Causal()),
        call(*three(), mask=regard.Window(2)), call(*three(), softcap=3.0),
    ]  # fmt: skip
    for n, asked in enumerate(calls * 4):
        sweep.expect(asked)
        assert sweep.full == min(n + 1, 2 * len(calls))
    sweep.full, state = 0, RowState(torch.randn(2, 3, 5), torch.randn(2, 3, 5))
    kinds: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((False, ASKED), {}), ((True, ()), {}), ((True, (Visible(),)), {}),
        ((True, ASKED, state), {}), ((True, ASKED), {"given": state}), ((True, ASKED), {"mass": 1}),
    ]  # fmt: skip
    for args, options in kinds * 4:
        answers = sweep.rows(calls[0], *args, **options)
        assert (answers.output is None) == (args[0] is False) and tuple(answers.measured) == args[1]
        if state in (*args, *options.values()):
            right = calls[0].query.sum(-1) + state.log
            torch.testing.assert_close(answers.measured[Entropy()], right)
    assert sweep.full == 2 * len(kinds)


@pytest.mark.parametrize(
    "options",
    [
        {"bias": torch.zeros(5, 5)}, {"sink": torch.zeros(3)}, {"mask": regard.Prefix(2)},
        {"mask": torch.ones(5, 5, dtype=torch.bool)}, {"also": torch.zeros(2, 3, 5)}, {"large": 1},
    ],
    ids=["bias", "sink", "prefix", "table", "a tensor of its own", "takes long anyway"],
)  # fmt: skip
def test_what_is_never_repeated(
    options: dict[str, Any], sweep: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.also = options.get("also")
    if "large" in options:
        monkeypatch.setattr(again, "_LARGEST", 2 * 3 * 5 * 5 - 1)
    rule = {name: it for name, it in options.items() if name not in ("also", "large")}
    for n in range(4):
        sweep.expect(call(*three(), **rule))
        assert sweep.full == n + 1 and SweepSteps not in map(type, again._KEPT.values())


def test_kinds_do_not_pile_up(sweep: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "_MANY", 3)
    for tokens in range(1, 9):
        sweep.expect(call(*three(1, 1, tokens, 4)))
    assert len(again._KEPT) <= 3


# ── launches: on a machine of our own, which reads its parameters where the table says ───────

KIND: dict[str, Any] = {"a": "*fp32", "out": "*fp32", "rule": ("fp32", "constexpr")}


class Machine:
    """Kernels in Python; each gets its parameters as numbers, tensors as addresses."""

    def __init__(self) -> None:
        self.kernels: list[Callable[..., None]] = []
        self.launched = 0

    def compiled(self, run: Callable[..., None], scratch: int = 0) -> Any:
        """Written as Triton describes one that adds a·by to out."""
        self.kernels.append(run)
        lines = [".param .u64 p", ".param .u64 p", ".param .f32 p"]
        lines += [".param .u64 .ptr .global .align 1 p"] * 2
        described = SimpleNamespace(
            num_ctas=1, num_warps=4, shared=0, global_scratch_size=scratch, launch_pdl=False,
            launch_cooperative_grid=False, profile_scratch_size=0,
        )  # fmt: skip
        return SimpleNamespace(
            function=len(self.kernels) - 1, metadata=described, src=SimpleNamespace(signature=KIND),
            asm={"ptx": ".visible .entry k(\n" + ",\n".join(lines) + "\n)\n{ }"},
        )  # fmt: skip

    def run(self, compiled: Any, *args: Any) -> None:
        """As the first launch does it."""
        given = driver.parameters(compiled, args)
        if given is not None:
            numbers: list[Any] = [getattr(p, "value", p) for p in given]
            numbers = [p.data_ptr() if isinstance(p, Tensor) else p for p in numbers]
            self.kernels[compiled.function](*numbers)
        if launch._WATCHED.seen is not None:
            launch._WATCHED.seen.append(Launch(compiled, (2,), args))

    def launch(self, kernel: driver.Kernel, grid: Any, table: Any, stream: int) -> None:
        """As the driver does it."""
        self.launched += 1
        assert grid == (2, 1, 1) and len(table) == 5
        kinds = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_float, *[ctypes.c_uint64] * 2]
        numbers = [kind.from_address(at).value for kind, at in zip(kinds, table, strict=True)]
        assert numbers.pop() == 0
        assert (numbers.pop() != 0) == (kernel.scratch != 0)
        self.kernels[kernel.function](*numbers)


def there(address: int, count: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(driver, "launch", made.launch)
    monkeypatch.setattr(driver, "clear", lambda at, size, stream: ctypes.memset(at, 0, size))
    monkeypatch.setattr(steps, "stream_of", lambda device: 0)
    return made


def add(n: int) -> Callable[..., None]:
    """out += a·by."""

    def run(a: int, out: int, by: float) -> None:
        there(out, n)[:] += there(a, n) * np.float32(by)

    return run


def kept(sweep: Callable[..., Any], *given: Tensor) -> SweepSteps | None:
    seen: list[Any] = []
    with watched(seen):
        answer = sweep(*given)
    return steps_of(given, seen, answer)


def test_launches_zeros_views_and_operations(machine: Machine) -> None:
    """Answers are new every time; parts of memory that are used together lie apart."""
    kernel = machine.compiled(add(6), scratch=128)

    def sweep(x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Any]]:
        aside = torch.zeros(2, 3)  # in the memory
        machine.run(kernel, x, aside, (2.0, 1))
        total = torch.empty(3, 6)
        total[0].zero_()
        machine.run(kernel, aside, total[0], (1.0, 1))
        total[1].fill_(7.0)
        total[2].copy_(torch.ops.aten.contiguous(y.T).T.reshape(-1) + 1)
        for _ in range(10):  # each of them for a moment only
            more = torch.zeros_like(y)
            machine.run(kernel, aside, more, (1.0, 1))
            machine.run(kernel, more, aside, (0.5, 1))
        machine.run(kernel, aside, total[1], (1.0, 1))
        doubled = torch.zeros_like(y)
        machine.run(kernel, y, doubled, (2.0, 1))
        return total, {"turned": doubled.to(torch.int64).T, "none": None, "n": 3}

    made = kept(sweep, torch.randn(2, 3), torch.arange(6.0).view(2, 3))
    assert made is not None and machine.launched == 0
    before = None
    for _ in range(3):
        given = torch.randn(2, 3), torch.randint(9, (2, 3)).float()
        (mine, parts), (right, others) = made.again(given), sweep(*given)
        assert torch.equal(mine, right) and torch.equal(parts.pop("turned"), others.pop("turned"))
        assert parts == {"none": None, "n": 3}
        assert before is None or mine.data_ptr() != before.data_ptr()
        before = mine
    assert machine.launched == 3 * 24
    assert made.memory <= 4 * 256 + 256  # of which programs have 128 bytes each of two


def copying(machine: Machine, kernel: Any, source: Tensor | None = None) -> Callable[..., Tensor]:
    """A sweep of one launch."""

    def sweep(x: Tensor) -> Tensor:
        out = torch.zeros(4)
        machine.run(kernel, x if source is None else source, out, (1.0, 1))
        return out

    return sweep


def test_what_steps_cannot_say(machine: Machine) -> None:
    """Tensors from elsewhere, numbers that are fetched, parameters that Triton's description lacks,
    clusters."""
    x, kernel = torch.randn(4), machine.compiled(add(4))
    assert kept(copying(machine, kernel), x) is not None
    assert kept(copying(machine, kernel, torch.ones(4)), x) is None
    assert kept(lambda x: torch.zeros(4) + float(x[0]), x) is None
    unknown, clusters = machine.compiled(add(4)), machine.compiled(add(4))
    unknown.asm["ptx"] = unknown.asm["ptx"].replace("\n)", ",\n.param .u32 p\n)")
    clusters.metadata.num_ctas = 2
    assert kept(copying(machine, unknown), x) is None
    assert kept(copying(machine, clusters), x) is None
