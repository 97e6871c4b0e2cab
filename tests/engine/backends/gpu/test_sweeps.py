"""Who may use the GPU kernels, and what is said to everybody else."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import regard
from regard.engine.backends.gpu import sweeps
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.launch import blocks, column_shape, padded, row_shape, value_chunk
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.call import Problem
from regard.shapes import AttentionShape
from regard.testing import CASES

LONG = AttentionShape.of(*[(1, 2, 50_048, 64)] * 3)  # 391 × 391 squares of 2 KiB
PLAIN = Problem(
    shape=AttentionShape.of(*[(1, 2, 8, 64)] * 3), dtype=torch.bfloat16, device="cuda", mask=None,
    bias=None, softcap=False, sink=False, dropout=False, gradients=True, bias_gradient=False,
    summaries=frozenset(),
)  # fmt: skip


def test_without_a_gpu_there_is_a_reason(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert TRITON.unavailable() == [
        "there is no CUDA GPU here (TRITON_INTERPRET=1 runs the kernels on the CPU)"
    ]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert TRITON.unavailable() == ["the GPU's compute capability is 7.5; it needs 8.0"]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert TRITON.unavailable() == []


def test_without_triton_there_is_a_reason(monkeypatch):
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
        ({"shape": AttentionShape.of(*[(1, 2, 8, 300)] * 3)}, "head dim 300 is above 256"),
        (
            {"shape": AttentionShape.of(*[(64, 64, 16, 8, 64)] * 3)},
            "batch × heads is 65536, CUDA takes 65535",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_each_limit_is_a_reason(monkeypatch, changes: dict[str, Any], reason: str):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert TRITON.reasons(PLAIN) == []
    assert TRITON.reasons(replace(PLAIN, **changes)) == [reason]


def test_insisting_says_why_not(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    x = torch.randn(1, 2, 8, 16)
    with pytest.raises(regard.errors.UnavailableError, match="triton: "):
        regard.attend(x, x, x, implementation="triton")


def test_importing_regard_imports_no_triton():
    """Nor does asking the CPU anything."""
    code = (
        "import sys, torch, regard\n"
        "before = 'triton' in sys.modules\n"
        "x = torch.ones(1, 1, 4, 8)\n"
        "regard.attend(x, x, x).entropy()\n"
        "import regard.engine.backends.gpu.sweeps\n"
        "print(before, any(m.startswith('regard.engine.backends.gpu.tile') for m in sys.modules))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[1] == "False"


def test_shapes_depend_on_head_dim_and_dtype_alone():
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        for dim in (5, 16, 64, 100, 128, 256):
            for shape in (row_shape(dim, dtype), column_shape(dim, dtype)):
                assert shape == (row_shape if shape == row_shape(dim, dtype) else column_shape)(
                    padded(dim), dtype
                )
                assert shape.rows % 16 == 0 and shape.keys % 16 == 0


def test_paddings():
    assert [padded(n) for n in (0, 1, 16, 17, 64, 100, 129)] == [16, 16, 16, 32, 64, 128, 256]
    assert [value_chunk(n, 64) for n in (3, 64, 100, 1000)] == [16, 64, 128, 128]
    assert [blocks(n, 64) for n in (0, 1, 64, 65)] == [0, 1, 1, 2]


def test_binding_says_what_is_fast_and_what_is_plain():
    def bound(name: str):
        case = next(c for c in CASES if c.name == name)
        inputs = case.inputs()
        from regard.engine import api

        options = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None}
        options |= inputs.options
        return bind(api._call(inputs.query, inputs.key, inputs.value, *options.values(), 0.0))

    for name, fast, plain in (
        ("plain", True, True), ("causal at the end", True, True), ("lengths", True, True),
        ("scattered padding", True, False), ("documents", True, False), ("alibi", False, True),
        ("bias table", False, False), ("soft cap", False, True), ("boolean table", True, False),
        ("not a window", True, False), ("prefix", True, True),
    ):  # fmt: skip
        found = bound(name)
        assert (found.fast, found.plain) == (fast, plain), name
    two = bound("two batch axes")
    assert two.query.shape[0] == 6 and two.batch == (2, 3) and two.units == 24
    assert two.batched(two.new(5)).shape == (2, 3, 4, 5)


@pytest.mark.parametrize(("number", "switched"), [(-1, []), (0, []), (1, [1])])
@pytest.mark.parametrize("name", ["rows", "columns", "rows_with_columns", "cells", "backward"])
def test_kernels_start_where_the_tensors_are(
    name: str, number: int, switched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton launches on the current GPU, here 0; models are spread over several."""
    seen: list[Any] = []

    @contextmanager
    def device(number: int) -> Iterator[None]:
        seen.append(number)
        yield

    def bind(call: Any) -> Any:
        seen.append("bound")
        raise LookupError

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(sweeps, "bind", bind)
    query = SimpleNamespace(get_device=lambda: number)
    given = inspect.signature(getattr(TRITON, name)).parameters
    with pytest.raises(LookupError):
        getattr(TRITON, name)(
            SimpleNamespace(
                query=query, shape=None, mask=SimpleNamespace(is_flat=False), score=None
            ),
            *[()] * (len(given) - 1),
        )
    assert seen == [*switched, "bound"]
