"""Who may use the GPU kernels, and what is said to everybody else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import regard
from regard.engine import plan
from regard.engine.backends import library
from regard.engine.backends.gpu import sweeps
from regard.engine.backends.gpu.launch import room
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import Problem
from regard.shapes import AttentionShape

HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64
LONG = AttentionShape.of(*[(1, 2, 50_048, 64)] * 3)  # 391 × 391 squares of 2 KiB
PLAIN = Problem(
    shape=AttentionShape.of(*[(1, 2, 8, 64)] * 3), dtype=HALF, device="cuda", mask=None, bias=None,
    softcap=False, sink=False, dropout=False, gradients=True, bias_gradient=False,
    summaries=frozenset(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One with so much shared memory (KiB) and such a compute capability."""
    properties = SimpleNamespace(shared_memory_per_block_optin=227 * 1024)
    monkeypatch.setattr(library, "works", lambda name: False)
    made = SimpleNamespace(there=True, capability=(9, 0), properties=properties)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: made.there)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: made.capability)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: made.properties)
    return made


def test_each_lack_is_a_reason(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TRITON.unavailable() == []
    gpu.capability = (7, 5)
    assert TRITON.unavailable() == ["the GPU's compute capability is 7.5; it needs 8.0"]
    gpu.capability = (8, 0)
    assert TRITON.unavailable() == []
    gpu.there = False
    lack = "there is no CUDA GPU here (TRITON_INTERPRET=1 runs the kernels on the CPU)"
    assert TRITON.unavailable() == [lack]
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert TRITON.unavailable() == []
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None)
    assert TRITON.unavailable() == ["Triton is not installed: pip install 'regard[gpu]'"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cpu"}, "the tensors are on cpu, these kernels run on cuda"),
        ({"dropout": True}, "it has no dropout"),
        ({"bias_gradient": True}, "its backward gives no gradient to a bias"),
        (
            {"mask": regard.Rule(lambda i, j: (i + j) % 2 == 0), "shape": LONG},
            "of masks it knows no Rule, and as a table it takes 300 MiB of 256",
        ),
        ({"shape": AttentionShape.of(*[(1, 2, 8, 257)] * 3)}, "head dim 257 is above 256"),
        (
            {"shape": AttentionShape.of(*[(64, 64, 16, 8, 64)] * 3)},
            "batch × heads is 65536, CUDA takes 65535",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_each_limit_is_a_reason(gpu: SimpleNamespace, changes: dict[str, Any], reason: str) -> None:
    gpu.there = False  # a problem is judged wherever it is
    assert TRITON.reasons(PLAIN) == []
    assert TRITON.reasons(replace(PLAIN, **changes)) == [reason]


@pytest.mark.parametrize(
    ("there", "dim", "dtype", "serves"),
    [
        (99, 64, HALF, True), (99, 64, DOUBLE, True), (99, 128, HALF, False),
        (99, 80, HALF, False), (163, 128, HALF, True), (163, 256, SINGLE, True),
        (163, 256, DOUBLE, False), (227, 256, DOUBLE, True), (None, 256, DOUBLE, True),
    ],
)  # fmt: skip
def test_a_small_gpu_is_a_reason(
    gpu: SimpleNamespace, there: int | None, dim: int, dtype: torch.dtype, serves: bool
) -> None:
    """Where torch does not say how much shared memory there is, it counts as enough."""
    shape = AttentionShape.of(*[(1, 2, 8, dim)] * 3)
    asked = replace(PLAIN, shape=shape, dtype=dtype, mask=regard.Window(4))
    gpu.properties.shared_memory_per_block_optin = (there or 0) * 1024
    if there is None:
        gpu.properties = object()
    need = room(dim, dtype)
    reason = f"head dim {dim} takes {need} KiB of shared memory, this GPU has {there}"
    assert TRITON.reasons(asked) == ([] if serves else [reason])
    if dtype == HALF:
        gpu.capability = (8, 0)  # no Hopper
        assert plan.choose(asked, None).name == ("triton" if serves else "dense")


def test_importing_regard_imports_no_kernel() -> None:
    """Nor does asking the CPU anything, or asking whether they can run."""
    code = (
        "import sys, torch, regard\n"
        "x = torch.ones(1, 1, 4, 8)\n"
        "regard.attend(x, x, x).entropy()\n"
        "from regard.engine.backends.gpu.hopper.sweeps import HOPPER\n"
        "HOPPER.unavailable()\n"
        "own = 'regard.engine.backends.gpu.'\n"
        "kernels = (own + 'tile', own + 'hopper.kernel', 'triton.experimental')\n"
        "print([m for m in sys.modules if m.startswith(kernels)])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
