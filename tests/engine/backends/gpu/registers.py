"""Compiles the product with the transposed matrix for sm_90, which needs no GPU, and says what the
assembler could not hold in registers; a child process, because Triton decides on import whether it
compiles.

    python registers.py        one JSON object: bytes by problem, spilled and read again
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from triton.backends.nvidia.compiler import get_ptxas

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import regard
from engine.backends.gpu import compiled
from regard.engine import api
from regard.engine.backends.gpu import columns
from regard.engine.backends.gpu.bind import bind
from regard.engine.call import RowState

QUERIES, KEYS = 130, 300
# dtype, head dim, width of y, options of `attend`: with and without the copy engine, chunks of y
# in full, one walk over the queries and three
PROBLEMS: dict[str, tuple[torch.dtype, int, int, dict[str, Any]]] = {
    "apart": (torch.bfloat16, 33, 3, {}),
    "bias": (torch.float16, 64, 3, {"bias": torch.zeros(2, QUERIES, KEYS)}),
    "causal": (torch.bfloat16, 128, 64, {"mask": regard.Causal()}),
}


def spilled(dtype: torch.dtype, dim: int, width: int, options: dict[str, Any]) -> int:
    """Bytes of one kernel."""
    taken: list[int] = []

    def run(kernel: Any, grid: Any, *args: Any, **constants: Any) -> None:
        text = compiled.compiled(kernel, *args, **constants).asm["ptx"]
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            assembler = [get_ptxas(90).path, "-v", "--fmad=false", "--gpu-name=sm_90a", file.name,
                         "-o", "/dev/null"]  # fmt: skip
            log = subprocess.run(assembler, capture_output=True, text=True, check=True).stderr
        taken.extend(map(int, re.findall(r"(\d+) bytes spill stores", log)))

    columns.run = run
    query, key = (torch.zeros(1, 2, n, dim, dtype=dtype) for n in (QUERIES, KEYS))
    rules = {"mask": None, "bias": None} | options
    call = api._call(query, key, key, rules["mask"], None, rules["bias"], None, None, 0.0)
    bound = bind(call)
    state = RowState(bound.new(QUERIES), bound.new(QUERIES))
    columns._multiplied(bound, state, None, torch.zeros(1, 2, QUERIES, width))
    (size,) = taken
    return size


if __name__ == "__main__":
    print(json.dumps({name: spilled(*problem) for name, problem in PROBLEMS.items()}))
