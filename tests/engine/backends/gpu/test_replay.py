"""How the replay is launched: its grid, and that kernel and grid mean the same axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard
from regard.engine import api
from regard.engine.backends.gpu import replay
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.launch import blocks
from regard.engine.call import RowState
from regard.mask import Mask

SECOND_AXIS = 65535  # programs that CUDA takes there


class Launches:
    """In place of a kernel: remembers what it was to run."""

    def __init__(self) -> None:
        self.grids: list[tuple[int, ...]] = []
        self.words: list[dict[str, Any]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        self.grids.append(grid)
        return lambda *_, **words: self.words.append(words)


def launched(
    monkeypatch: pytest.MonkeyPatch, keys: int, mask: Mask | None, heads: int = 3
) -> tuple[tuple[int, ...], bool, int]:
    """The grid, whether the kernel takes it as turned, and how many blocks of keys there are."""
    launches = Launches()
    for name in ("_replay", "_terms"):
        monkeypatch.setattr(replay, name, launches if name == "_replay" else Launches())
    query = torch.zeros(1, heads, 1, 128, dtype=torch.bfloat16)
    key = query.expand(1, heads, keys, 128)  # no memory, however many
    bound = bind(api._call(query, key, key[..., :0], mask, None, None, None, None, 0.0))
    rows = torch.zeros(1, heads, 1)
    replay.replay(bound, RowState(rows, rows))
    (grid,), (words,) = launches.grids, launches.words
    return grid, words["TURNED"], blocks(keys, words["BN"])


@pytest.mark.parametrize("keys", [1, 300, 100_000])
def test_long_walks_go_first_under_a_causal_mask(
    keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs start along the first axis: heads there, so that block 0 of every head starts."""
    grid, turned, many = launched(monkeypatch, keys, regard.Causal())
    assert turned and grid == (3, many)
    grid, turned, many = launched(monkeypatch, keys, None)
    assert not turned and grid == (many, 3)


def test_more_blocks_than_the_second_axis_takes_stay_on_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, _, few = launched(monkeypatch, 2**20, regard.Causal())
    keys = 2**20 // few * SECOND_AXIS
    grid, turned, many = launched(monkeypatch, keys, regard.Causal(), heads=1)
    assert turned and grid == (1, many) == (1, SECOND_AXIS)
    grid, turned, many = launched(monkeypatch, keys + 1, regard.Causal(), heads=1)
    assert not turned and grid == (many, 1) and many > SECOND_AXIS


def test_many_heads_fit_under_a_causal_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, turned, many = launched(monkeypatch, 5, regard.Causal(), heads=100_000)
    assert turned and grid == (100_000, many)
