"""When the heaviest keys are found by pruning, and what memory that takes."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.engine import api
from regard.engine.gpu.bind import Bound, bind
from regard.engine.gpu.launch import blocks, row_shape
from regard.engine.gpu.prune import Pruner, prunes
from regard.engine.gpu.wanted import BLOCK, RUN

HALF, SINGLE = torch.bfloat16, torch.float32


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
    lists = units * pruner.tall * (pruner.count * 12 + 8)
    work = units * (blocks(pruner.tall * pruner.count, RUN) + many) * 8 + units * many * 8
    return maxima + survivors + lists + work


@pytest.mark.parametrize(
    ("dtype", "keys", "count", "pays"),
    [
        (HALF, 4096, 8, True), (torch.float16, 4096, 8, True), (HALF, 4096, 16, True),
        (HALF, 4096, 17, False), (HALF, 1000, 8, False), (SINGLE, 4096, 8, False),
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
    assert taken(pruner) <= 2**28
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


@pytest.mark.parametrize("queries", [1, 7, 16])
def test_a_few_queries_are_not_padded(queries: int) -> None:
    assert Pruner(bound(4, queries, 8192), 8).tall == queries
