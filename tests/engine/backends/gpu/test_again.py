"""A sweep is repeated over other tensors: those of a call are put in, nothing else is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import api
from regard.engine.backend import RowAnswers
from regard.engine.backends.gpu import again
from regard.engine.backends.gpu.again import Kept, rows_again
from regard.engine.backends.gpu.forward import Asked
from regard.engine.backends.gpu.launch import Launch
from regard.engine.call import Call, RowState
from regard.summary import Entropy, Visible

ASKED = (Entropy(),)


class Kernel:
    """In place of a compiled one: output = v·scale, peak = Σ q, log = Σ k, entropy = both."""

    def __init__(self) -> None:
        self.launched = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(q: Tensor, k: Tensor, v: Tensor, asked: Asked, state: Any, scale: float) -> None:
            self.launched += 1
            assert asked.output is not None and asked.entropy is not None
            asked.output.copy_(v * scale)
            state[0].copy_(q.sum(-1))
            state[1].copy_(k.sum(-1))
            asked.entropy.copy_(q.sum(-1) + k.sum(-1))

        return launch


def call_of(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Call:
    rules = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None} | options
    return api._call(q, k, v, *rules.values(), 0.0)  # type: ignore[arg-type]


class Sweep:
    """The way without anything kept, which launches through `seen`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kernel, self.full, self.seen = Kernel(), 0, list[Launch]()
        self.also: Tensor | None = None  # another tensor among the arguments

        @contextmanager
        def launches() -> Iterator[list[Launch]]:
            self.seen = []
            yield self.seen

        monkeypatch.setattr(again, "launches", launches)
        monkeypatch.setattr(again, "interpreting", lambda: False)
        monkeypatch.setattr(again, "start", lambda compiled, grid, args: compiled[grid](*args))
        monkeypatch.setattr(again, "_KEPT", {})

    def __call__(self, call: Call, measures: Any = ASKED) -> RowAnswers:
        def sweep() -> RowAnswers:
            self.full += 1
            rows = call.query.shape[:-1]
            output, state = torch.empty_like(call.value), [torch.empty(rows) for _ in range(2)]
            numbers = {m: torch.empty(rows) for m in measures}
            asked = Asked(output, numbers.get(Entropy(), self.also), *[None] * 5, self.also)
            args = (call.query, call.key, call.value, asked, tuple(state), call.score.scale)
            self.seen.append(Launch(self.kernel, (1,), args))
            self.kernel[(1,)](*args)
            return RowAnswers(output, RowState(*state), {**numbers})

        return rows_again("triton", call, True, measures, sweep)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    return Sweep(monkeypatch)


def three(*shape: int) -> list[Tensor]:
    return [torch.randn(shape or (2, 3, 5, 4)) for _ in range(3)]


def expect(found: RowAnswers, call: Call) -> None:
    assert found.output is not None
    torch.testing.assert_close(found.output, call.value * call.score.scale)
    torch.testing.assert_close(found.state.peak, call.query.sum(-1))
    torch.testing.assert_close(found.state.log, call.key.sum(-1))
    torch.testing.assert_close(found.measured[Entropy()], found.state.peak + found.state.log)


def test_other_tensors_take_their_places(sweep: Sweep) -> None:
    found = []
    for _ in range(3):
        call = call_of(*three())
        found.append(sweep(call))
        expect(found[-1], call)
    assert sweep.full == 1 and sweep.kernel.launched == 3
    assert len({found[n].output.data_ptr() for n in range(3)}) == 3  # type: ignore[union-attr]


def test_one_tensor_in_several_places_tells_nothing(sweep: Sweep) -> None:
    x = three()[0]
    expect(sweep(call_of(x, x, x)), call_of(x, x, x))
    call = call_of(*three())
    expect(sweep(call), call)  # kept now
    expect(sweep(call_of(x, x, x)), call_of(x, x, x))
    assert sweep.full == 2


def test_what_is_not_alike_is_swept_anew(sweep: Sweep) -> None:
    calls = [
        call_of(*three()),
        call_of(*three(2, 3, 6, 4)),
        call_of(*[t.transpose(1, 2).contiguous().transpose(1, 2) for t in three()]),
        call_of(*[torch.randn(121)[1:].view(2, 3, 5, 4) for _ in range(3)]),
        call_of(*three(), scale=0.25),
        call_of(*three(), mask=regard.Causal()),
        call_of(*three(), mask=regard.Window(2)),
        call_of(*three(), softcap=3.0),
    ]
    for n, call in enumerate(calls * 2):
        expect(sweep(call), call)
        assert sweep.full == min(n + 1, len(calls))


def test_what_holds_tensors_of_its_own_is_not_kept(sweep: Sweep) -> None:
    sweep.also = torch.zeros(2, 3, 5)
    for n in range(3):
        call = call_of(*three())
        expect(sweep(call), call)
        assert sweep.full == n + 1
    assert list(again._KEPT.values()) == [None]


@pytest.mark.parametrize(
    "options",
    [
        {"bias": torch.zeros(5, 5)}, {"sink": torch.zeros(3)}, {"mask": regard.Prefix(2)},
        {"mask": torch.ones(5, 5, dtype=torch.bool)},
    ],
    ids=["bias", "sink", "prefix", "table"],
)  # fmt: skip
def test_rules_with_arrays_are_not_kept(options: dict[str, Any], sweep: Sweep) -> None:
    for n in range(2):
        call = call_of(*three(), **options)
        expect(sweep(call), call)
        assert sweep.full == n + 1 and not again._KEPT


def test_no_tensor_is_kept_alive(sweep: Sweep) -> None:
    sweep(call_of(*three()))
    (kept,) = again._KEPT.values()
    assert isinstance(kept, Kept)
    assert not any(again._holds_tensors(arg) for arg in kept.launch.args)


def test_kinds_do_not_pile_up(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "_MANY", 3)
    for tokens in range(1, 9):
        sweep(call_of(*three(1, 1, tokens, 4)))
    assert len(again._KEPT) <= 3


def test_a_number_that_is_converted_is_not_kept(sweep: Sweep) -> None:
    """Counts are other tensors outside than the kernel writes."""
    call = call_of(*three())

    def converted() -> RowAnswers:
        sweep.full += 1
        rows = call.query.shape[:-1]
        counts = torch.empty(rows, dtype=torch.int32)
        state = [torch.empty(rows) for _ in range(2)]
        asked = Asked(None, None, None, None, None, None, counts, None)
        args = (call.query, call.key, call.value, asked, tuple(state), 1.0)
        sweep.seen.append(Launch(sweep.kernel, (1,), args))
        return RowAnswers(None, RowState(*state), {Visible(): counts.to(torch.int64)})

    for n in range(2):
        rows_again("triton", call, False, (Visible(),), converted)
        assert sweep.full == n + 1
