"""When the heaviest keys are found by pruning, what memory that takes, and what a compiler makes
of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import regard
import warm
from engine.backends.gpu.compiled import carried, frozen
from regard.engine import api
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.launch import blocks, row_shape
from regard.engine.backends.gpu.prune import Pruner, prunes
from regard.engine.backends.gpu.wanted import BLOCK, RUN

HALF, SINGLE = torch.bfloat16, torch.float32
SCRIPT = Path(__file__).with_name("compiled.py")

# as Triton 3.6 leaves a loop whose rows are read ahead: the second `least` reads the rows of the
# first turn for ever
_WRONG = """
    %row = tt.load %rows : tensor<64x!tt.ptr<i32>, #b> loc(#loc1)
    %end:2 = scf.for %n = %a to %b step %c iter_args(%at = %zero, %now = %row) -> (tensor<64xi32, \
#b>, tensor<64xi32, #b>)  : i32 {
      %next = tt.load %at : tensor<64x!tt.ptr<i32>, #b> loc(#loc2)
      %least = tt.load %now, %some : tensor<64x!tt.ptr<f32>, #b> loc(#loc4)
      %least_1 = tt.load %row, %some : tensor<64x!tt.ptr<f32>, #mma> loc(#loc4)
      scf.yield %more, %next : tensor<64xi32, #b>, tensor<64xi32, #b> loc(#loc3)
    } loc(#loc3)
#loc1 = loc("a.py":1:1)
#loc2 = loc("a.py":2:1)
#loc3 = loc("a.py":3:1)
#loc4 = loc("least"(#loc2))
"""


def bound(heads: int, queries: int, keys: int, dtype: torch.dtype = HALF, dim: int = 128) -> Bound:
    """A call without memory."""
    query = torch.empty(1, heads, queries, dim, dtype=dtype, device="meta")
    key = torch.empty(1, heads, keys, dim, dtype=dtype, device="meta")
    return bind(api._call(query, key, key, regard.Causal(), None, None, None, None, 0.0))


def taken(pruner: Pruner) -> int:
    """Bytes at a time: maxima, survivors (score and key), lists."""
    units, many = pruner.bound.units, blocks(pruner.bound.rule.keys, BLOCK)
    maxima = units * many * pruner.tall * 4
    survivors = units * pruner.tall * pruner.count**2 * 8
    lists = units * pruner.tall * (pruner.count * 16 + 4)
    work = units * (blocks(pruner.tall * pruner.count, RUN) + many) * 12 + units * many * 8
    return maxima + survivors + lists + work


@pytest.mark.parametrize(
    ("dtype", "keys", "count", "pays"),
    [
        (HALF, 4096, 8, True), (torch.float16, 4096, 8, True), (HALF, 4096, 16, True),
        (HALF, 4096, 17, False), (HALF, 1000, 8, False), (SINGLE, 4096, 8, False),
        (HALF, 1024, 8, True), (HALF, 1024, 9, False), (HALF, 2048, 16, True),
    ],
)  # fmt: skip
def test_pruning_is_for_few_of_many_keys(
    dtype: torch.dtype, keys: int, count: int, pays: bool
) -> None:
    assert prunes(bound(2, 64, keys, dtype), count) is pays


@pytest.mark.parametrize("count", [1, 5, 8, 16])
@pytest.mark.parametrize(
    ("heads", "tokens"), [(8, 131072), (16, 16384), (64, 4096), (4, 32768), (1, 2048)]
)
def test_memory_stays_small(heads: int, tokens: int, count: int) -> None:
    pruner = Pruner(bound(heads, tokens, tokens), count)
    assert taken(pruner) <= 2**29
    # and no less is done at a time than half of it would allow
    assert pruner.tall >= tokens or taken(pruner) > 2**26


@pytest.mark.parametrize("heads", [1, 3, 8, 100])
@pytest.mark.parametrize("tokens", [17, 127, 2048, 5000, 131072])
def test_rows_come_in_whole_blocks(heads: int, tokens: int) -> None:
    """Of any forward: powers of two of at least its rows, or all of them."""
    pruner = Pruner(bound(heads, tokens, max(tokens, 2048)), 8)
    block = row_shape(128, HALF).rows
    assert pruner.tall % block == 0
    assert pruner.tall & (pruner.tall - 1) == 0 or pruner.tall == blocks(tokens, block) * block


@pytest.mark.parametrize(("queries", "pays"), [(1, False), (16, False), (17, True)])
def test_scores_of_a_few_queries_are_kept_instead(queries: int, pays: bool) -> None:
    assert prunes(bound(4, queries, 8192), 8) is pays


@pytest.mark.parametrize(("dim", "queries"), [(128, 2100), (64, 2100)])
def test_what_moves_with_a_loop_moves_in_every_layout(dim: int, queries: int) -> None:
    """Interpreted kernels have no layouts, so nothing else sees this without a GPU. Reading rows
    ahead in the gather, which passes them on, is what Triton 3.6 gets wrong."""
    run = warm.run(SCRIPT, str(dim), str(queries))
    assert run.returncode == 0, run.stderr[-2000:]
    told = json.loads(run.stdout)
    assert set(told) == {"_select", "_arrange", "_list", "_gather", "_merge"}
    assert {name: found["frozen"] for name, found in told.items() if found["frozen"]} == {}
    assert told["_gather"]["carried"] == []


def test_a_value_that_stands_still_in_one_layout_is_found() -> None:
    right = _WRONG.replace("tt.load %row, %some", "tt.load %now, %some")
    assert frozen(_WRONG) == ['tt.load "least"("a.py":2:1)']
    assert frozen(right) == []
    assert carried(_WRONG) == ["64xi32"]
