"""When keys are split, and how."""

from __future__ import annotations

import pytest
import torch

from regard.engine import api
from regard.engine.backends.gpu import decode
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.decode import decodes
from regard.engine.backends.gpu.wanted import BLOCK

KINDS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def bound(queries: int, keys: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16) -> Bound:
    """A call without memory."""
    query = torch.empty(batch, 8, queries, 64, dtype=dtype, device="meta")
    key = torch.empty(batch, 2, keys, 64, dtype=dtype, device="meta")
    return bind(api._call(query, key, key, None, None, None, None, None, 0.0))


@pytest.mark.parametrize(
    ("queries", "keys", "splits"),
    [(1, 8192, True), (16, 8192, True), (17, 8192, False), (1, 100, False), (0, 8192, True)],
)
def test_a_few_queries_over_many_keys_are_split(queries: int, keys: int, splits: bool) -> None:
    assert decodes(bound(queries, keys)) is splits


def test_company_decides_nothing() -> None:
    """A row alone and the same row in a batch take the same way."""
    for dtype in KINDS:
        for keys in (100, 1000, 1024, 5000):
            found = {decodes(bound(1, keys, batch, dtype)) for batch in (1, 3, 64)}
            assert len(found) == 1


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("dim", [5, 64, 128, 256])
def test_tiles_divide_splits(dim: int, dtype: torch.dtype) -> None:
    for rows in (1, 16, 17, 64, 500):
        shape = decode._shape(rows, dim, dtype)
        assert decode._SPLIT % shape.keys == 0
        assert shape.rows >= 16 and shape.rows & (shape.rows - 1) == 0
        # pruning, which is for half precision, wants whole blocks of keys
        assert dtype.itemsize > 2 or shape.keys % BLOCK == 0


def test_more_queries_than_are_split_at_once_are_never_asked_for() -> None:
    """The kernels find the keys of at most this many queries."""
    assert decode._MOST_QUERIES & (decode._MOST_QUERIES - 1) == 0
    assert not decodes(bound(decode._MOST_QUERIES + 1, 10**6))
