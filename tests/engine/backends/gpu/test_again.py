"""Sweeps alike are repeated from the third on, over the tensors of each call; nothing is kept of
them but steps."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from each.conftest import call_of
from regard.engine.backend import RowAnswers
from regard.engine.backends.gpu import again, steps
from regard.engine.backends.gpu.again import repeated
from regard.engine.backends.gpu.steps import SweepSteps
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
