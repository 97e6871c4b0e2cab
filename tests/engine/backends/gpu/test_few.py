"""How many launches a few queries' questions take, and what memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.engine import api
from regard.engine.backends.gpu import decode, few
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.few import ScoreReader
from regard.engine.call import RowState
from regard.summary import ColumnSums, Pooled, Top


def bound(batch: int, heads: int, key_heads: int, queries: int, keys: int) -> Bound:
    """A call without memory."""
    query = torch.empty(batch, heads, queries, 128, dtype=torch.bfloat16, device="meta")
    key = torch.empty(batch, key_heads, keys, 128, dtype=torch.bfloat16, device="meta")
    return bind(api._call(query, key, key, None, None, None, None, None, 0.0))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that would have run."""
    names: list[str] = []

    def run(kernel: Any, grid: Any, *args: Any, **constants: Any) -> None:
        assert 0 not in grid
        names.append(getattr(kernel, "__name__", None) or kernel.fn.__name__)

    monkeypatch.setattr(decode, "run", run)
    monkeypatch.setattr(few, "run", run)
    return names


def test_everything_at_once(launched: list[str]) -> None:
    given = bound(8, 32, 8, 1, 8192)
    reader = ScoreReader(given, True, None, {Pooled(): 16}, (Top(8),))
    decode.decode(given, True, {"entropy", "raw"}, None, reader)
    assert launched == ["_part", "_combine", "_sums", "_best", "_best"]


def test_later_keys_are_read_once_and_values_never(launched: list[str]) -> None:
    given = bound(1, 4, 1, 3, 1024)
    state = RowState(given.new(3), given.new(3))
    maps: dict[Pooled, int] = {Pooled(4): 4, Pooled(9, "max"): 9}
    decode.look(given, state, ScoreReader(given, True, None, maps, (Top(5),)))
    assert launched == ["_part", "_sums", "_sums", "_best"]
    launched.clear()
    few.received(given, state, None, ColumnSums())
    assert launched == ["_part", "_sums"]


def test_no_cell_is_larger_than_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but keys is walked, and no place is beyond what an index holds."""
    sizes: list[tuple[int, ...]] = []
    monkeypatch.setattr(few, "run", lambda kernel, grid, *args, **_: sizes.append(args[-4:]))
    monkeypatch.setattr(decode, "run", lambda *_, **__: None)
    given = bound(1, 4, 1, 3, 5000)
    reader = ScoreReader(given, False, None, {Pooled(2**40): 2**40})
    decode.decode(given, True, set(), None, reader)
    assert sizes == [(5000, 2, 1, 1)]  # the cell, its parts, cells down and across


@pytest.mark.parametrize("size", [(1, 4, 2, 0, 8192), (0, 4, 2, 1, 8192)], ids=["rows", "batch"])
def test_nothing_is_launched_for_nothing(launched: list[str], size: tuple[int, ...]) -> None:
    given = bound(*size)
    reader = ScoreReader(given, True, None, {Pooled(4): 4}, (Top(5),))
    decode.decode(given, True, set(), None, reader)
    assert launched == [] and reader.mass is not None


@pytest.mark.parametrize("queries", [1, 5, 16])
@pytest.mark.parametrize("keys", [1024, 131072, 10**6])
@pytest.mark.parametrize(("heads", "key_heads"), [(32, 8), (32, 32), (32, 1), (7, 7)])
def test_memory_stays_small(heads: int, key_heads: int, keys: int, queries: int) -> None:
    """256 MiB of scores at a time, or those of one key head."""
    for batch in (1, 3, 8):
        given = bound(batch, heads, key_heads, queries, keys)
        shared = batch * key_heads
        many = ScoreReader(given, True).heads
        head = heads // key_heads * queries * keys * 4
        assert 1 <= many <= shared
        assert many == 1 or many * head <= 2**28
        # and no more often than need be, each time about as many
        times = -(-shared // many)
        assert times == 1 or -(-shared // (times - 1)) * head > 2**28
