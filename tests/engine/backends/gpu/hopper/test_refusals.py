"""Who gets the Hopper forward, and what is said to everybody else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import regard
from regard.engine import plan
from regard.engine.backends import library
from regard.engine.backends.gpu.hopper import gluon, sweeps
from regard.engine.backends.gpu.hopper.sweeps import HOPPER
from regard.engine.call import Problem
from regard.shapes import AttentionShape
from regard.summary import Concentration, Entropy

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


@pytest.mark.usefixtures("hopper")
def test_each_lack_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HOPPER.unavailable() == []
    monkeypatch.setattr(gluon, "why_not", lambda: "this Triton has no Gluon for Hopper")
    assert HOPPER.unavailable() == ["this Triton has no Gluon for Hopper"]
    for capability in ((8, 9), (10, 0)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda it=capability: it)
        version = ".".join(map(str, capability))
        lack = f"the GPU's compute capability is {version}; the kernel is for 9.0"
        assert HOPPER.unavailable() == [lack]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert HOPPER.unavailable() == ["there is no CUDA GPU here"]
    x = torch.randn(1, 2, 8, 64, dtype=HALF)
    with pytest.raises(regard.errors.UnavailableError, match="hopper: there is no CUDA GPU here"):
        regard.attend(x, x, x, implementation="hopper")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert HOPPER.unavailable() == ["Triton's interpreter runs no Gluon kernel"]
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None)
    assert HOPPER.unavailable() == ["Triton is not installed: pip install 'regard[gpu]'"]


def of_shape(dim: int, value_dim: int) -> AttentionShape:
    return AttentionShape.of((1, 4, 8, dim), (1, 2, 9, dim), (1, 2, 9, value_dim))


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    "changes",
    [
        {}, {"dtype": torch.float16}, {"shape": of_shape(128, 128)}, {"sink": True},
        {"shape": of_shape(128, 0)}, {"mask": regard.Causal()},
        {"mask": regard.Window(4) & regard.Padding(torch.tensor([3]))},
        {"summaries": frozenset([Entropy(), Concentration()])},
    ],
    ids=str,
)  # fmt: skip
def test_what_it_serves(changes: dict[str, Any]) -> None:
    assert HOPPER.reasons(replace(PLAIN, **changes)) == []
    assert plan.choose(replace(PLAIN, **changes), None).name == "hopper"


@pytest.mark.usefixtures("hopper")
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
def test_each_limit_is_a_reason(changes: dict[str, Any], reason: str) -> None:
    assert reason in HOPPER.reasons(replace(PLAIN, **changes))
    if "dropout" not in changes:  # which Triton does not serve either
        assert plan.choose(replace(PLAIN, **changes), None).name == "triton"


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(("dim", "name"), [(64, "hopper"), (32, "triton"), (300, "tiled")])
def test_questions_behind_torchs_kernel_go_to_it(dim: int, name: str) -> None:
    problem = replace(PLAIN, shape=AttentionShape.of(*[(1, 2, 8, dim)] * 3))
    call: Any = SimpleNamespace(  # over tensors of a GPU; nothing of it is remembered
        mask=SimpleNamespace(is_flat=False), score=SimpleNamespace(bias=None),
        query=SimpleNamespace(device=torch.device("cuda")), problem=lambda learns=False: problem,
    )  # fmt: skip
    assert plan.sweeps_for(call, "").name == name
