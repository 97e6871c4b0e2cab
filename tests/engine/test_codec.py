"""A call as one line of text, and back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import regard
from regard.declare import encode
from regard.engine import api, ops
from regard.engine.codec import Spec, measure_text, measures_of
from regard.errors import InputError
from regard.score import ScoreRule
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Pooled,
    Summary,
    Top,
    Visible,
)

EVERY: tuple[Summary, ...] = (
    Entropy(), MaxScore(), MaxLogit(), Concentration(), Distance(), Visible(), Top(3), Pooled(),
    Pooled(4), Pooled(5, "max"),
)  # fmt: skip
SPECS = [
    Spec("null", encode(ScoreRule(1.0))),
    Spec(encode(regard.Causal()), encode(ScoreRule(0.125, 2.5)), "cpu", False, output=True),
    Spec("null", encode(ScoreRule(1.0)), "tiled", asked=measure_text([Top(3)]), seen=True),
    Spec("null", encode(ScoreRule(1.0)), what="scores", dropout=0.1, place=-7),
    Spec("null", encode(ScoreRule(1.0)), output=True, aside=True),
    Spec("null", encode(ScoreRule(1.0)), output=True, mass=True),
    Spec(encode(regard.Causal() & regard.Padding([1], [2])), encode(ScoreRule(1 / 3))),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_there_and_back(spec: Spec) -> None:
    assert Spec.parse(spec.text()) == spec
    assert "\n" not in spec.text()


def test_texts_differ_where_specs_do() -> None:
    assert len({spec.text() for spec in SPECS}) == len(SPECS)


def test_asking_keeps_the_rules() -> None:
    spec = Spec.of(regard.Causal(), ScoreRule(0.5, softcap=2.0))
    asked = Spec.parse(spec.asking(output=True, what="scores"))
    assert (asked.mask, asked.score) == (spec.mask, spec.score)
    assert asked.output and asked.what == "scores" and not spec.output


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask": regard.Causal() & regard.Padding([3, 2]), "scale": 1 / 3},
        {"mask": torch.ones(2, 1, 4, 5) > 0, "bias": torch.randn(4, 5), "sink": torch.zeros(2)},
        {"bias": regard.ALiBi([0.5, 0.25], "start"), "softcap": 5},
        {"bias": regard.RelativeBias(torch.randn(8, 2), False, 20), "sink": torch.ones(2)},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_a_call_is_rebuilt_over_its_tensors(options: dict[str, Any]) -> None:
    q, k = torch.randn(2, 2, 4, 3), torch.randn(2, 2, 5, 3)
    given = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None} | options
    call = api._call(q, k, k, *given.values(), 0.0)
    spec = Spec.parse(Spec.of(call.mask, call.score).text())
    arrays = [*([] if call.mask is None else call.mask.arrays()), *call.score.arrays()]
    again = spec.call(q, k, k, arrays)
    assert again.shape == call.shape and repr(again.mask) == repr(call.mask)
    assert (again.score.scale, again.score.softcap) == (call.score.scale, call.score.softcap)
    assert repr(again.score.bias) == repr(call.score.bias)
    for mine, theirs in zip(again.score.arrays(), call.score.arrays(), strict=True):
        assert torch.equal(mine, theirs)


def test_dropout_seed_and_place_reach_the_call() -> None:
    q = torch.randn(1, 2, 3)
    call = Spec("null", encode(ScoreRule(1.0)), dropout=0.25, place=4).call(q, q, q, [], seed=9)
    assert (call.dropout, call.seed, call.place, call.position) == (0.25, 9, 4, 4)


# ── measures ─────────────────────────────────────────────────────────────────────────────────


def test_measures_there_and_back() -> None:
    assert measures_of(measure_text(EVERY)) == EVERY
    for one in EVERY:
        assert measures_of(measure_text([one])) == (one,)
    assert measure_text([]) == "" and measures_of("") == ()


def test_an_unknown_measure() -> None:
    with pytest.raises(InputError, match="there is no 'mood/1' here"):
        measures_of('[["mood/1",{}]]')


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
@pytest.mark.parametrize("queries", [0, 7])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_shapes_told_while_tracing_are_the_real_ones(
    implementation: str, queries: int, dtype: torch.dtype
) -> None:
    q, k = torch.randn(2, 4, queries, 3).to(dtype), torch.randn(2, 2, 11, 3).to(dtype)
    asked = measure_text(EVERY)
    spec = Spec("null", encode(ScoreRule(1.0)), implementation, output=True, asked=asked)
    real = ops.rows(q, k, k, [], [], [], None, spec.text())
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (q, k)]
        traced = ops.rows(fakes[0], fakes[1], fakes[1], [], [], [], None, spec.text())[4:]
    assert [(t.shape, t.dtype) for t in traced] == [(t.shape, t.dtype) for t in real[4:]]


@pytest.mark.parametrize("kind", ["output", "product"])
@pytest.mark.parametrize("mass", [False, True])
@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_gradients_told_while_tracing_are_the_real_ones(
    implementation: str, mass: bool, kind: str, dtype: torch.dtype
) -> None:
    """The mass comes last, with the gradient of an output alone."""
    q, k = torch.randn(2, 4, 7, 3).to(dtype), torch.randn(2, 2, 11, 3).to(dtype)
    exact = torch.promote_types(dtype, torch.float32)
    row = torch.zeros(2, 4, 7, dtype=exact)
    told = [torch.ones_like(q), row, row.new_empty(0)]
    if kind == "product":
        told = [row.new_ones(2, 4, 11, 1), row.unsqueeze(-1)]
    spec = Spec("null", encode(ScoreRule(1.0)), implementation, mass=mass).text()
    real = ops.gradient(q, k, k, [], [row, row + 2.4], told, kind, spec)
    with FakeTensorMode(allow_non_fake_inputs=True):
        traced = ops.gradient(q, k, k, [], [row, row + 2.4], told, kind, spec)
    assert [(t.shape, t.dtype) for t in traced] == [(t.shape, t.dtype) for t in real]
    assert len(real) == 3 + (mass or kind == "product")
    if mass and kind == "output":
        assert real[-1].shape == (2, 4, 11) and real[-1].dtype == exact
