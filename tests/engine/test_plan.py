"""Which implementation serves a call, and what is said where none can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import regard
from regard.engine import api, plan
from regard.engine.backends import library
from regard.engine.call import Problem
from regard.engine.plan import CANDIDATES, remarks, survey, sweeps_for
from regard.errors import InputError, UnavailableError
from regard.shapes import AttentionShape
from regard.summary import Entropy, Pooled


def square(tokens: int, batch: int = 1, heads: int = 2) -> AttentionShape:
    return AttentionShape.of(*[(batch, heads, tokens, 4)] * 3)


FEW, SMALL, LARGE = square(8), square(64), square(4096)
PLAIN = Problem(
    shape=SMALL, dtype=torch.float32, device="cpu", mask=None, bias=None, softcap=False, sink=False,
    dropout=False, gradients=False, bias_gradient=False, summaries=frozenset(),
)  # fmt: skip


def chosen(implementation: str | None = None, **changes: Any) -> str:
    return plan.choose(replace(PLAIN, **changes), implementation).name


class Unable:
    """An implementation that can do nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def unavailable(self) -> list[str]:
        return ["it is not here"] if self.name == "cpu" else []

    def reasons(self, problem: Problem) -> list[str]:
        return [f"{self.name} says no", "and no again"]


# ── without a name ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mask": regard.Causal()},
        {"bias": regard.ALiBi(torch.ones(2)), "softcap": True, "sink": True},
        {"gradients": True},
        {"summaries": frozenset([Entropy()])},
        {"summaries": frozenset(Pooled(n) for n in range(1, 10))},
        {"dtype": torch.bfloat16},
    ],
    ids=lambda changes: "+".join(changes) if isinstance(changes, dict) else str(changes),
)
def test_the_kernels_come_first(shape: AttentionShape, changes: dict[str, Any]) -> None:
    assert chosen(shape=shape, **changes) == "cpu"


def test_for_a_few_queries_torch_comes_first() -> None:
    assert chosen(shape=FEW) == "library"
    assert chosen(shape=FEW, gradients=True) == "library"
    assert chosen(shape=FEW, sink=True) == "cpu"  # which torch's operator has not


@pytest.mark.parametrize(
    "changes", [{"dropout": True}, {"bias_gradient": True, "bias": regard.ALiBi(torch.ones(2))}]
)
def test_what_the_kernels_cannot_do(changes: dict[str, Any]) -> None:
    assert chosen(**changes) == "dense"  # a small matrix is faster than a loop over tiles
    assert chosen(shape=LARGE, **changes) == "tiled"


def test_small_counts_batch_and_heads() -> None:
    assert chosen(shape=square(512, 4, 4), dropout=True) == "dense"
    assert chosen(shape=square(512, 4, 5), dropout=True) == "tiled"


def test_another_device_gets_what_runs_anywhere() -> None:
    assert chosen(device="mps") == "dense"
    assert chosen(device="mps", shape=LARGE) == "tiled"


def test_a_gpu_gets_torch_for_the_bare_output_and_ours_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(library, "works", lambda name: True)
    monkeypatch.setattr(
        "regard.engine.backends.gpu.sweeps.TritonSweeps.unavailable", lambda self: []
    )
    half = {"device": "cuda", "dtype": torch.bfloat16}
    eight = {"shape": AttentionShape.of(*[(1, 2, 64, 8)] * 3)}
    assert chosen(**half, **eight) == "library"
    assert chosen(**half, **eight, summaries=frozenset([Entropy()])) == "triton"
    assert chosen(**half, **eight, sink=True) == "triton"
    assert chosen(device="cuda") == "triton"
    assert chosen(device="cuda", dropout=True) == "dense"
    rule = regard.Rule(lambda i, j: i > j)
    assert chosen(device="cuda", shape=LARGE, mask=rule) == "triton"
    long, longer = (AttentionShape.of(*[(1, 2, n, 64)] * 3) for n in (20_000, 50_048))
    assert chosen(device="cuda", shape=long, mask=rule) == "triton"
    scattered = regard.Rule(lambda i, j: (i + j) % 2 == 0)  # 300 MiB as bits
    assert chosen(device="cuda", shape=longer, mask=scattered) == "tiled"


def test_a_hopper_gpu_gets_our_forward_where_it_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(library, "works", lambda name: True)
    monkeypatch.setattr(
        "regard.engine.backends.gpu.hopper.sweeps.HopperSweeps.unavailable", lambda self: []
    )
    half = {"device": "cuda", "dtype": torch.bfloat16}
    short, long = ({"shape": AttentionShape.of(*[(1, 16, n, 128)] * 3)} for n in (2048, 16384))
    assert chosen(**half, **short) == "library"
    assert chosen(**half, **long) == "hopper"
    assert chosen(**half, **long, gradients=True) == "library"
    assert chosen(**half, shape=AttentionShape.of(*[(1, 16, 16384, 64)] * 3)) == "library"
    assert chosen(**half, **short, summaries=frozenset([Entropy()])) == "hopper"


def test_every_reason_is_listed_where_nobody_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_load", Unable)
    with pytest.raises(UnavailableError, match="no implementation can serve this call:") as raised:
        chosen()
    assert raised.value.reasons == {
        "cpu": ["it is not here"],
        **{name: [f"{name} says no", "and no again"] for name in ("library", "dense", "tiled")},
    }
    assert "library: library says no; and no again" in str(raised.value)


# ── by name ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in CANDIDATES if name not in ("hopper", "triton")])
def test_a_name_is_obeyed(name: str) -> None:
    assert chosen(name) == name
    x = torch.randn(1, 2, 4, 4)
    assert regard.attend(x, x, x, implementation=name).implementation == name


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("cpu", {"dropout": True}, "it has no dropout"),
        ("cpu", {"bias_gradient": True}, "its backward gives no gradient to a bias"),
        ("cpu", {"device": "cuda"}, "the tensors are on cuda, these kernels run on the CPU"),
        ("library", {"sink": True}, "it has no sink"),
    ],
)
def test_a_name_never_falls_back(name: str, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnavailableError, match=f"'{name}' cannot serve this call:") as raised:
        chosen(name, **changes)
    assert raised.value.reasons == {name: [reason]}
    assert reason in str(raised.value)


def test_all_reasons_of_one_are_given() -> None:
    with pytest.raises(UnavailableError) as raised:
        chosen("cpu", dropout=True, bias_gradient=True, device="cuda")
    assert len(raised.value.reasons["cpu"]) == 3


@pytest.mark.parametrize("name", ["flash", "", "CPU", "regard"])
def test_an_unknown_name_hears_the_choices(name: str) -> None:
    said = f"implementation='{name}' does not exist; give one of {', '.join(CANDIDATES)}"
    with pytest.raises(InputError) as raised:
        chosen(name)
    assert str(raised.value) == said


# ── sweeps behind questions ──────────────────────────────────────────────────────────────────


def test_sweeps_by_name_or_by_ability(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1, 2, 4, 4)
    call = api._call(x, x, x, None, None, None, None, None, 0.0)
    table = torch.zeros(4, 4, requires_grad=True)
    learns = api._call(x, x, x, None, None, table, None, None, 0.0)
    assert [sweeps_for(call, name).name for name in ("cpu", "tiled", "")] == ["cpu", "tiled", "cpu"]
    assert sweeps_for(learns, "").name == "tiled"
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.why_not", lambda: "no compiler")
    assert sweeps_for(call, "").name == "tiled"


# ── what a machine has ───────────────────────────────────────────────────────────────────────


def test_survey_names_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ["no GPU"]
    for kind in ("gpu.sweeps.TritonSweeps", "gpu.hopper.sweeps.HopperSweeps"):
        monkeypatch.setattr(f"regard.engine.backends.{kind}.unavailable", lambda self: absent)
    ours = {"cpu": [], "hopper": absent, "triton": absent}
    here = {**ours, "library": [], "tiled": [], "dense": []}
    assert survey() == here
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.why_not", lambda: "no compiler")
    assert survey() == {**here, "cpu": ["no compiler"]}


def test_remarks_are_about_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(remarks()) == ["cpu"] and "kernels, " in remarks()["cpu"]
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.why_not", lambda: "no compiler")
    assert remarks() == {}
