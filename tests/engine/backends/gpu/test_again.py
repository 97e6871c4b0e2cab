"""Sweeps alike are repeated from the third on, over the tensors of each call; nothing is kept of
them but steps."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
import warm
from regard.engine import api
from regard.engine.backend import RowAnswers
from regard.engine.backends.gpu import again, steps
from regard.engine.backends.gpu.again import repeated
from regard.engine.backends.gpu.steps import SweepSteps
from regard.engine.call import Call, RowState
from regard.summary import Entropy, Summary, Visible

ASKED = (Entropy(),)


def call_of(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Call:
    rules: dict[str, Any] = {
        "mask": None,
        "scale": None,
        "bias": None,
        "softcap": None,
        "sink": None,
    } | options
    return api._call(q, k, v, **rules, dropout=0.0)


class Sweeps:
    """output = v·scale, peak = Σ q, log = Σ k, entropy = both, more where it is given."""

    name = "ours"

    def __init__(self) -> None:
        self.full = 0
        self.also: Tensor | None = None  # a tensor from elsewhere

    @repeated
    def rows(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None = None,
        mass: bool = False,
    ) -> RowAnswers:
        self.full += 1
        state = RowState(call.query.sum(-1), call.key.sum(-1))
        entropy = state.peak + state.log if given is None else state.peak + given.log
        entropy = entropy if self.also is None else entropy + self.also
        made = call.value * call.score.scale if output else None
        return RowAnswers(made, state, dict.fromkeys(measures, entropy))

    def __call__(self, call: Call, *args: Any, **options: Any) -> RowAnswers:
        return self.rows(call, *(args or (True, ASKED)), **options)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    monkeypatch.setattr(again, "interpreting", lambda: False)
    monkeypatch.setattr(again, "_KEPT", {})
    monkeypatch.setattr(steps, "stream_of", lambda device: 0)
    return Sweeps()


def three(*shape: int) -> list[Tensor]:
    return [torch.randn(shape or (2, 3, 5, 4)) for _ in range(3)]


def expect(found: RowAnswers, call: Call) -> None:
    assert found.output is not None
    torch.testing.assert_close(found.output, call.value * call.score.scale)
    torch.testing.assert_close(found.state.peak, call.query.sum(-1))
    torch.testing.assert_close(found.state.log, call.key.sum(-1))
    torch.testing.assert_close(found.measured[Entropy()], found.state.peak + found.state.log)


def test_other_tensors_take_their_places(sweep: Sweeps) -> None:
    found = []
    for _ in range(5):
        call = call_of(*three())
        found.append(sweep(call))
        expect(found[-1], call)
    assert sweep.full == 2
    assert len({one.output.data_ptr() for one in found if one.output is not None}) == 5


def test_tensors_that_are_one(sweep: Sweeps) -> None:
    for _ in range(4):
        x, y = three()[:2]
        for given in ((x, x, x), (x, y, y), (x, y, x), three()):
            expect(sweep(call_of(*given)), call_of(*given))
    assert sweep.full == 2 * 4


def test_what_is_not_alike_is_swept_anew(sweep: Sweeps) -> None:
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
    for n, call in enumerate(calls * 4):
        expect(sweep(call), call)
        assert sweep.full == min(n + 1, 2 * len(calls))


def test_arguments_are_part_of_the_kind(sweep: Sweeps) -> None:
    call = call_of(*three())
    state = RowState(torch.randn(2, 3, 5), torch.randn(2, 3, 5))
    kinds: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((True, ASKED), {}), ((False, ASKED), {}), ((True, ()), {}), ((True, (Visible(),)), {}),
        ((True, ASKED, state), {}), ((True, ASKED), {"given": state}), ((True, ASKED), {"mass": 1}),
    ]  # fmt: skip
    for args, options in kinds * 4:
        found = sweep(call, *args, **options)
        assert (found.output is None) == (args[0] is False) and tuple(found.measured) == args[1]
        if state in (*args, *options.values()):
            right = call.query.sum(-1) + state.log
            torch.testing.assert_close(found.measured[Entropy()], right)
    assert sweep.full == 2 * len(kinds)


def test_what_uses_tensors_of_its_own_is_not_kept(sweep: Sweeps) -> None:
    sweep.also = torch.zeros(2, 3, 5)
    for n in range(4):
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
def test_rules_with_arrays_are_not_kept(options: dict[str, Any], sweep: Sweeps) -> None:
    for n in range(3):
        call = call_of(*three(), **options)
        expect(sweep(call), call)
        assert sweep.full == n + 1 and not again._KEPT


def test_no_tensor_is_kept_alive(sweep: Sweeps) -> None:
    gone = []
    for _ in range(3):
        call = call_of(*three())
        found = sweep(call)
        gone += [weakref.ref(t) for t in (call.query, found.output, *found.state) if t is not None]
    assert any(isinstance(kept, SweepSteps) for kept in again._KEPT.values())
    del call, found
    gc.collect()
    assert all(one() is None for one in gone)


def test_what_takes_long_anyway_is_not_watched(
    sweep: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "_LARGEST", 2 * 3 * 5 * 5)
    for shape, times in (((2, 3, 5, 4), 2), ((2, 3, 6, 4), 4)):
        before = sweep.full
        for _ in range(4):
            call = call_of(*three(*shape))
            expect(sweep(call), call)
        assert sweep.full - before == times


def test_kinds_do_not_pile_up(sweep: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "_MANY", 3)
    for tokens in range(1, 9):
        sweep(call_of(*three(1, 1, tokens, 4)))
    assert len(again._KEPT) <= 3


def test_kernels_that_are_interpreted() -> None:
    """Whole sweeps by steps have the bits that they have without."""
    run = warm.run(Path(__file__).with_name("repeated.py"), interpret=True)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-2000:]}"
