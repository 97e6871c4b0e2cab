"""Which sweeps a question costs, and that rows and columns come together where that is cheaper."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import plan
from regard.engine.backend import ColumnAnswers, RowAnswers, Sweeps
from regard.engine.backends.tiled import TiledSweeps
from regard.engine.call import Call, RowState
from regard.summary import (
    ColumnSums,
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Offsets,
    Peak,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)

MASS, COUNTED, MAP, LARGEST = Received(), Received(per="visible"), Pooled(4), Pooled(3, "max")


class Apart(TiledSweeps):
    """Maps come with the rows; says what was swept."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def rows(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None = None,
    ) -> RowAnswers:
        if output or measures or given is None:
            self.said.append(("rows", *measures))
        return super().rows(call, output, measures, given)

    def columns(
        self,
        call: Call,
        state: RowState,
        chosen: Tensor | None,
        y: Tensor | None,
        asked: ColumnSums = ColumnSums(),  # noqa: B008
    ) -> ColumnAnswers:
        self.said.append(("columns", chosen is not None, *asked[1:3]))
        return super().columns(call, state, chosen, y, asked)


class Together(Apart):
    """Rows and columns come together."""

    def rows_with_columns(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        asked: ColumnSums,
        given: RowState | None,
    ) -> tuple[RowAnswers, ColumnAnswers]:
        self.said.append(("together", *measures, *asked[1:3]))
        found = TiledSweeps.rows(self, call, output, measures, given)
        state = given or found.state
        return found, TiledSweeps.columns(self, call, state, None, None, asked)


def tensors() -> list[Tensor]:
    dice = torch.Generator().manual_seed(0)
    shapes = ((4, 10), (2, 13), (2, 13))
    return [torch.randn(2, h, n, 8, generator=dice, dtype=torch.float64) for h, n in shapes]


@pytest.fixture(params=[Apart, Together])
def sweeps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Apart:
    made: Apart = request.param()

    def only(name: str) -> Sweeps:
        return made

    monkeypatch.setattr(plan, "sweeps_called", only)
    plan.KEPT.clear()  # what was settled with other sweeps
    return made


def expect_defined(found: dict[Any, Any], *asked: Summary) -> None:
    right = regard.attend(*tensors(), mask=regard.Causal(), implementation="dense")
    for summary, value in right.summarize(*asked).items():
        torch.testing.assert_close(found[summary], value, rtol=1e-12, atol=1e-12)


def run(*summaries: Summary) -> regard.Attention:
    return regard.attend(
        *tensors(), mask=regard.Causal(), summaries=summaries, implementation="tiled"
    )


def test_mass_and_maps_with_the_output(sweeps: Apart) -> None:
    a = run(Entropy(), MASS, MAP)
    swept = list(sweeps.said)
    expect_defined(a.summarize(Entropy(), MASS, MAP), Entropy(), MASS, MAP)
    assert sweeps.said == swept, "what was known was swept again"
    if isinstance(sweeps, Together):
        assert swept == [("together", Entropy(), MAP, False, False)]
    else:
        assert swept == [("rows", Entropy(), MAP), ("columns", False, False, False)]


@pytest.mark.parametrize("asked", [(MASS,), (Entropy(), MASS), (Top(2), COUNTED)], ids=repr)
def test_mass_comes_with_the_output(sweeps: Apart, asked: tuple[Summary, ...]) -> None:
    """Where queries are few, the sweep that makes the output has their scores."""
    a, rows = run(*asked), asked[:-1]
    swept = list(sweeps.said)
    expect_defined({s: a.summarize(s)[s] for s in asked if s != Top(2)}, *asked[-1:])
    assert sweeps.said == swept, "what was known was swept again"
    seen = asked[-1] == COUNTED
    if isinstance(sweeps, Together):
        assert swept == [("together", *rows, seen, False)]
    else:
        assert swept == [("rows", *rows), ("columns", False, seen, False)]


def test_mass_and_maps_afterwards(sweeps: Apart) -> None:
    a = run()
    sweeps.said.clear()
    expect_defined(a.summarize(COUNTED, MAP, Offsets(), LARGEST), COUNTED, MAP, Offsets(), LARGEST)
    if isinstance(sweeps, Together):
        assert sweeps.said == [("together", MAP, LARGEST, True, True)]
    else:
        assert sweeps.said == [("rows", MAP, LARGEST), ("columns", False, True, True)]


def test_the_largest_comes_with_the_mass(sweeps: Apart) -> None:
    most = Received(how="max")
    a = run()
    sweeps.said.clear()
    expect_defined(a.summarize(MASS, most), MASS, most)
    assert sweeps.said == [("columns", False, False, False)], "one sweep"


@pytest.mark.parametrize("known", [MASS, MAP], ids=repr)
def test_what_is_known_keeps_nobody_company(sweeps: Apart, known: Summary) -> None:
    a = run(known)
    sweeps.said.clear()
    expect_defined(a.summarize(MASS, MAP), MASS, MAP)
    left = ("rows", MAP) if known == MASS else ("columns", False, False, False)
    assert sweeps.said == [left]


def test_each_alone_has_its_own_sweep(sweeps: Apart) -> None:
    a = run()
    sweeps.said.clear()
    a.received()
    a.pooled(4)
    assert sweeps.said == [("columns", False, False, False), ("rows", MAP)]


def test_some_queries_are_another_sweep(sweeps: Apart) -> None:
    a, last = run(), Received(3)
    sweeps.said.clear()
    expect_defined(a.summarize(last, MAP), last, MAP)
    assert sweeps.said == [("rows", MAP), ("columns", True, False, False)]
    sweeps.said.clear()
    a, every = run(), (last, MASS, MAP)
    expect_defined(a.summarize(*every), *every)
    assert sweeps.said.count(("columns", True, False, False)) == 1 and len(sweeps.said) <= 4


def test_counts_that_come_later(sweeps: Apart) -> None:
    """Mass is known, who sees each key is not."""
    a = run(MASS, MAP)
    sweeps.said.clear()
    expect_defined(a.summarize(COUNTED), COUNTED)
    assert sweeps.said == [("columns", False, True, False)]


def test_diagonals_come_with_mass_and_maps(sweeps: Apart) -> None:
    a = run(Offsets(), MAP)
    swept = list(sweeps.said)
    expect_defined(a.summarize(Offsets(), MAP, MASS), Offsets(), MAP, MASS)
    assert sweeps.said == swept and len(swept) == (1 if isinstance(sweeps, Together) else 2)


def test_gradients_of_mass_beside_a_map(sweeps: Apart) -> None:
    leaves = [tensor.requires_grad_() for tensor in tensors()]
    found = []
    for name in ("tiled", "dense"):
        a = regard.attend(*leaves, mask=regard.Causal(), implementation=name)
        answers = a.summarize(MASS, MAP)
        loss = answers[MASS].square().sum() + a.entropy().sum()
        found.append(torch.autograd.grad(loss, leaves[:2]))
        torch.testing.assert_close(
            answers[MAP].detach(), a.pooled(4).detach(), rtol=1e-12, atol=1e-12
        )
    for mine, right in zip(*found, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-10)


EVERY = (
    Entropy(), MaxScore(), MaxLogit(), Concentration(), Distance(), Visible(), Top(2), MASS,
    COUNTED, Offsets(), MAP,
)  # fmt: skip


def flat(known: dict[Any, Any]) -> dict[str, Tensor]:
    """Every tensor that was measured, by its place."""
    parts = {
        f"{name} {n}": part
        for name, value in known.items()
        for n, part in enumerate(value if isinstance(value, tuple) else (value,))
    }
    return {name: part for name, part in parts.items() if part is not None}


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
@pytest.mark.parametrize("asked", [(), EVERY], ids=["bare", "everything"])
@pytest.mark.parametrize("turned", [False, True])
def test_past_the_operator_all_is_as_through_it(
    implementation: str, asked: tuple[Summary, ...], turned: bool
) -> None:
    """Without a gradient no operator is called: same bits, dtypes and strides, and no two answers
    share memory, so that whoever writes into one changes no other."""
    q, k, v = (torch.randn(2, 9, 4, 8).transpose(1, 2) for _ in range(3))
    q, k, v = (q, k, v) if turned else (t.contiguous() for t in (q, k, v))
    options: dict[str, Any] = {"mask": regard.Causal(), "summaries": asked}
    past = regard.attend(q, k, v, implementation=implementation, **options)
    through = regard.attend(
        q.clone().requires_grad_(), k, v, implementation=implementation, **options
    )
    found = {"output": past.output, "lse": past.lse, **flat(past._known.values)}
    other = {"output": through.output, "lse": through.lse, **flat(through._known.values)}
    for name, value in found.items():
        assert torch.equal(value, other[name].detach()), name
        assert value.dtype == other[name].dtype and value.stride() == other[name].stride(), name
        assert value.is_contiguous(), name
    assert past._state is not None
    held = [*found.values(), *past._state, q, k, v]
    assert len({t.untyped_storage().data_ptr() for t in held}) == len(held)


def test_a_peak_is_part_of_known_top_keys(sweeps: Apart) -> None:
    a = run(Top(4))
    sweeps.said.clear()
    found = a.summarize(Peak(), Top(2), Top(4))
    assert sweeps.said == []
    assert torch.equal(found[Peak()].keys, found[Top(4)].keys[..., 0])
    assert torch.equal(found[Top(2)].weights, found[Top(4)].weights[..., :2])
