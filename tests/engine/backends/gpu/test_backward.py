"""The backward's tiles fit into the memory that `room` says a GPU must have. Compiling needs no
GPU; gradients are compared in test_interpreted.py, and on a GPU by tests/each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import warm
from regard.engine.backends.gpu.launch import room

SCRIPT = """
import json, sys, torch, regard
sys.path.insert(0, sys.argv.pop(1))
from compiled import compiled
from regard.engine import api
from regard.engine.backends.gpu import backward
from regard.engine.backends.gpu.bind import bind
from regard.engine.call import RowState

dim, dtype, mass = int(sys.argv[1]), getattr(torch, sys.argv[2]), sys.argv[3] == "mass"
shared = {}
def run(kernel, grid, *args, **constants):
    shared[kernel.__name__] = compiled(kernel, *args, **constants).metadata.shared
backward.run = run
query, key = (torch.zeros(2, heads, n, dim, dtype=dtype) for heads, n in ((4, 70), (2, 130)))
bound = bind(api._call(query, key, key, regard.Causal(), None, None, None, None, 0.0))
row = bound.new(70)
backward.backward(bound, RowState(row, row), query, row, row, mass, query)
print(json.dumps(shared))
"""


@pytest.mark.parametrize(
    ("dim", "dtype", "mass"),
    [
        (64, torch.bfloat16, ""), (128, torch.bfloat16, "mass"), (256, torch.float32, ""),
        (256, torch.float64, ""), (256, torch.float64, "mass"),
    ],
    ids=str,
)  # fmt: skip
def test_tiles_fit(dim: int, dtype: torch.dtype, mass: str) -> None:
    words = str(Path(__file__).parent), str(dim), str(dtype).removeprefix("torch."), mass
    run = warm.run(SCRIPT, *words)
    assert run.returncode == 0, run.stderr[-2000:]
    shared = json.loads(run.stdout)
    assert set(shared) == {"_products", "_prepare", "_query_gradient", "_key_gradients"}
    assert max(shared.values()) <= room(dim, dtype) * 1024
