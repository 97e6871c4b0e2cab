"""Compiles the forward kernel under masks and biases of all kinds, and says how much shared memory
each takes; a child process, because Triton decides on import whether it compiles.

    python room.py <capability> <dim>        one JSON object: KiB by rule
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from triton.backends.compiler import GPUTarget

import regard
from engine.backends.gpu import compiled
from regard.engine import api
from regard.engine.backends.gpu import forward
from regard.engine.backends.gpu.bind import bind

QUERIES, KEYS = 130, 300


def rules() -> dict[str, dict[str, Any]]:
    """Options of `attend` for a batch of two with four heads."""
    flags = regard.Padding(torch.arange(2 * KEYS).view(2, KEYS) % 3 > 0)
    ids = [torch.zeros(2, n, dtype=torch.int64) for n in (QUERIES, KEYS)]
    vectors = regard.Causal() & regard.Documents(*ids) & flags
    table = torch.ones(1, 1, QUERIES, KEYS, dtype=torch.bool)
    bias = torch.zeros(2, 4, QUERIES, KEYS)
    spelt = regard.Rule(lambda i, j: (i - j) % 3 == 0)
    return {
        "vectors": {"mask": vectors},
        "table": {"mask": vectors & table},
        "by distance": {"bias": regard.RelativeBias(torch.zeros(32, 4))},
        "by half a distance": {
            "mask": vectors,
            "bias": regard.RelativeBias(torch.zeros(32, 4).half()),
        },
        "half a bias": {"mask": vectors & table, "bias": bias.to(torch.bfloat16)},
        "all": {"mask": vectors & table, "bias": bias},
        "spelt": {"mask": spelt},
        "spelt, half a bias": {"mask": spelt, "bias": bias.to(torch.bfloat16)},
        "spelt, a bias": {"mask": spelt, "bias": bias},
    }


def room(dim: int, mask: Any = None, bias: Any = None) -> float:
    """KiB."""
    taken: list[float] = []

    def run(kernel: Any, grid: Any, *args: Any, **options: Any) -> None:
        made = compiled.compiled(kernel, *args, **options)
        taken.append(made.metadata.shared / 1024)

    forward.run = run
    query, key = (torch.zeros(2, h, n, dim, dtype=torch.bfloat16)
                  for h, n in ((4, QUERIES), (2, KEYS)))  # fmt: skip
    call = api._call(query, key, key, mask, None, bias, None, None, 0.0)
    forward.forward(bind(call), True, {"entropy", "raw"}, None)
    return max(taken)


if __name__ == "__main__":
    compiled.TARGET = GPUTarget("cuda", int(sys.argv[1]), 32)
    print(json.dumps({name: room(int(sys.argv[2]), **given) for name, given in rules().items()}))
