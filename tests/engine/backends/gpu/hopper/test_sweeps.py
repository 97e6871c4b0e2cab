"""Who gets the Hopper forward, who gets Triton's, and what is said to everybody else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import api, plan
from regard.engine.backends import library
from regard.engine.backends.gpu import decode, forward
from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.hopper import forward as own
from regard.engine.backends.gpu.hopper import gluon, sweeps
from regard.engine.backends.gpu.hopper.sweeps import HOPPER
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import Call, Problem, RowState
from regard.shapes import AttentionShape
from regard.summary import Concentration, Entropy, MaxScore

HALF = torch.bfloat16
PLAIN = Problem(
    shape=AttentionShape.of(*[(1, 2, 8, 64)] * 3), dtype=HALF, device="cuda", mask=None, bias=None,
    softcap=False, sink=False, dropout=False, gradients=True, bias_gradient=False,
    summaries=frozenset([Entropy()]),
)  # fmt: skip


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this machine had one."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr("regard.engine.backends.gpu.sweeps._shared_memory", lambda: 227)
    monkeypatch.setattr(library, "works", lambda name: True)


# ── the machine ──────────────────────────────────────────────────────────────────────────────


def test_each_lack_is_a_reason(monkeypatch: pytest.MonkeyPatch, hopper: None) -> None:
    assert HOPPER.unavailable() == []
    monkeypatch.setattr(gluon, "why_not", lambda: "this Triton has no Gluon for Hopper")
    assert HOPPER.unavailable() == ["this Triton has no Gluon for Hopper"]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 9))
    (said,) = HOPPER.unavailable()
    assert said == "the GPU's compute capability is 8.9; the kernel is for 9.0"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (10, 0))
    assert "is 10.0" in HOPPER.unavailable()[0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert HOPPER.unavailable() == ["there is no CUDA GPU here"]
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert HOPPER.unavailable() == ["Triton's interpreter runs no Gluon kernel"]
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None)
    assert HOPPER.unavailable() == ["Triton is not installed: pip install 'regard[gpu]'"]


def test_asking_about_it_imports_no_triton() -> None:
    code = (
        "import sys\n"
        "from regard.engine.backends.gpu.hopper.sweeps import HOPPER\n"
        "HOPPER.unavailable()\n"
        "kernel = 'regard.engine.backends.gpu.hopper.kernel'\n"
        "print(any(m.startswith(kernel) for m in sys.modules),\n"
        "      any(m.startswith('triton.experimental') for m in sys.modules))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


# ── the problem ──────────────────────────────────────────────────────────────────────────────


def of_shape(dim: int, value_dim: int) -> AttentionShape:
    return AttentionShape.of((1, 4, 8, dim), (1, 2, 9, dim), (1, 2, 9, value_dim))


WINDOW_AND_LENGTHS = regard.Window(4) & regard.Padding(torch.tensor([3]))


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"dtype": torch.float16}, {"shape": of_shape(128, 128)}, {"sink": True},
        {"shape": of_shape(128, 0)}, {"mask": regard.Causal()},
        {"mask": WINDOW_AND_LENGTHS},
        {"summaries": frozenset([Entropy(), Concentration()])},
    ],
    ids=str,
)  # fmt: skip
def test_what_it_serves(hopper: None, changes: dict[str, Any]) -> None:
    assert HOPPER.reasons(replace(PLAIN, **changes)) == []
    assert plan.choose(replace(PLAIN, **changes), None).name == "hopper"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": torch.float32}, "the tensors are torch.float32, it takes bfloat16 and float16"),
        ({"shape": of_shape(96, 96)}, "head dim 96 is not 64 or 128"),
        ({"shape": of_shape(64, 40)},
         "values of 40 beside a head dim of 64: it takes equal ones"),
        ({"bias": regard.ALiBi(torch.ones(2))},
         "it knows no bias, and this one is ALiBi(<float32 (2,)>, align='end')"),
        ({"softcap": True}, "it has no soft cap"),
        ({"mask": regard.Documents(torch.zeros(8, dtype=torch.int64))},
         "of masks it knows no Documents"),
        ({"mask": regard.mask.Table(torch.ones(8, 8, dtype=torch.bool))},
         "of masks it knows no boolean table"),
        ({"mask": regard.Padding(torch.ones(1, 8, dtype=torch.bool))},
         "of masks it knows no scattered padding"),
        ({"dropout": True}, "it has no dropout"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_each_limit_is_a_reason(hopper: None, changes: dict[str, Any], reason: str) -> None:
    assert reason in HOPPER.reasons(replace(PLAIN, **changes))
    if "dropout" not in changes:  # which Triton does not serve either
        assert plan.choose(replace(PLAIN, **changes), None).name == "triton"


def test_questions_behind_torchs_kernel_go_to_it(hopper: None) -> None:
    class Elsewhere:
        """A call over tensors of a GPU; its mask holds tensors, so that nothing is remembered."""

        mask = SimpleNamespace(is_flat=False)
        score = SimpleNamespace(bias=None)
        query = SimpleNamespace(device=torch.device("cuda"))

        def problem(self, learns: bool = False) -> Problem:
            return self.asked

    call: Any = Elsewhere()
    for dim, name in ((64, "hopper"), (32, "triton"), (300, "tiled")):
        call.asked = replace(PLAIN, shape=AttentionShape.of(*[(1, 2, 8, dim)] * 3))
        assert plan.sweeps_for(call, "").name == name


def test_insisting_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    x = torch.randn(1, 2, 8, 64, dtype=HALF)
    with pytest.raises(regard.errors.UnavailableError, match="hopper: there is no CUDA GPU here"):
        regard.attend(x, x, x, implementation="hopper")


# ── the call ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which forward ran, by stand-ins."""
    ran: list[str] = []

    def stand_in(name: str) -> Any:
        def run(bound: Bound, output: bool, names: set[str], *_: Any) -> forward.Found:
            ran.append(name)
            found = forward.new_found(bound, output, names)
            return found._replace(state=RowState(*(torch.zeros_like(t) for t in found.state)))

        return run

    monkeypatch.setattr(own, "forward", stand_in("hopper"))
    monkeypatch.setattr(forward, "forward", stand_in("triton"))
    monkeypatch.setattr(decode, "decode", stand_in("decode"))
    return ran


def call(query: Tensor, key: Tensor, value: Tensor | None = None, **options: Any) -> Call:
    given = dict.fromkeys(("mask", "scale", "bias", "softcap", "sink")) | options
    return api._call(query, key, key if value is None else value, dropout=0.0, **given)


def tokens(*shape: int, dtype: torch.dtype = HALF) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


PREFIX_OR_CAUSAL = regard.Causal() | regard.Prefix(3)
OUTSIDE = ~regard.Window(2, 2)


@pytest.mark.parametrize(
    ("asked", "ran"),
    [
        (call(tokens(2, 4, 20, 64), tokens(2, 2, 30, 64)), "hopper"),
        (call(tokens(2, 20, 4, 64).transpose(1, 2), tokens(2, 4, 30, 64)), "hopper"),
        (call(tokens(20, 128), tokens(30, 128), mask=regard.Causal()), "hopper"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 20, 64), mask=PREFIX_OR_CAUSAL), "hopper"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 30, 64)[:, :, ::2]), "hopper"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 20, 64), mask=OUTSIDE), "triton"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 20, 64), scale=2.0), "triton"),
        (call(tokens(1, 2, 20, 64), tokens(1, 1, 20, 64).expand(1, 2, 20, 64)), "triton"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 20, 65)[..., :64]), "triton"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 0, 64)), "triton"),
        (call(tokens(1, 2, 20, 64, dtype=torch.float32), tokens(1, 2, 20, 64, dtype=torch.float32)),
         "triton"),
        (call(tokens(1, 2, 20, 64), tokens(1, 2, 20, 64), tokens(1, 2, 20, 32)), "triton"),
        (call(tokens(1, 2, 3, 64), tokens(1, 2, 2000, 64)), "decode"),
    ],
    ids=[
        "grouped", "heads last", "no batch", "prefix or causal", "every second key",
        "two intervals", "large scale", "one key for two heads", "not aligned", "no keys",
        "single precision", "narrow values", "decoding",
    ],
)  # fmt: skip
def test_the_kernel_runs_where_it_fits(called: list[str], asked: Call, ran: str) -> None:
    found = HOPPER.rows(asked, True, (Entropy(), MaxScore()))
    assert called == [ran]
    assert found.output is not None and found.output.shape == (
        *asked.query.shape[:-1], asked.value.shape[-1],
    )  # fmt: skip
    called.clear()
    TRITON.rows(asked, True, ())
    assert called == ["decode" if ran == "decode" else "triton"]


def test_without_an_output_values_do_not_matter(called: list[str]) -> None:
    asked = call(tokens(1, 2, 20, 64), tokens(1, 2, 20, 64), tokens(1, 2, 20, 0))
    HOPPER.rows(asked, False, (Entropy(),))
    assert called == ["hopper"]
