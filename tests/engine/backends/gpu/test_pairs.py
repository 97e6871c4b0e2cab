"""Two attentions in one sweep: by Triton's interpreter against strips, and whether tiles fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import warm

SCRIPT = Path(__file__).with_name("pairs.py")


@pytest.mark.parametrize("check", ["each", "sum", "mean", "sinks", "bent", "rows", "refused"])
def test_interpreted(check: str) -> None:
    run = warm.run(SCRIPT, check, interpret=True)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-2000:]}"


TILES = """
import json, sys, torch, regard
sys.path.insert(0, sys.argv[1])
from compiled import compiled
from regard.engine import api
from regard.engine.backend import PairSide
from regard.engine.backends.gpu import pairs
from regard.engine.call import RowState

dim, dtype = int(sys.argv[2]), getattr(torch, sys.argv[3])
shared = {}
def run(kernel, grid, *args, **constants):
    shared[kernel.__name__] = compiled(kernel, *args, **constants).metadata.shared
pairs.run = run
query, key = (torch.zeros(2, heads, n, dim, dtype=dtype) for heads, n in ((4, 70), (2, 130)))
call = api._call(query, key, key, regard.Causal(), None, None, None, None, 0.0)
row = torch.zeros(2, 4, 70, dtype=call.exact)
heads = torch.tensor([[0, 1, 2, 3]], dtype=torch.int32)
teacher = PairSide(call, RowState(row, row), heads, row[:, :1])
student = PairSide(call, RowState(row, row), heads[:, :1].contiguous(), row[:, :1])
pairs.pair_sums("js", teacher, student, row[:, :1], True)
pairs.pair_key_gradient("js", teacher, student, row[:, :1], row[:, :1])
print(json.dumps(shared))
"""


@pytest.mark.parametrize(
    ("dim", "dtype"), [(64, "bfloat16"), (128, "bfloat16"), (128, "float32"), (256, "float64")]
)
def test_tiles_fit(dim: int, dtype: str) -> None:
    run = warm.run(TILES, str(Path(__file__).parent), str(dim), dtype)
    assert run.returncode == 0, run.stderr[-2000:]
    shared = json.loads(run.stdout)
    assert set(shared) == {"_row_sums", "_key_gradient"}
    assert max(shared.values()) <= (99 if dim <= 64 else 227) * 1024
