"""The loop over tiles: which are computed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.backends.tiled import tile
from regard.engine.backends.tiled.tile import KEYS, ROWS, score_tile
from regard.engine.call import Call
from regard.mask import Extent, Mask


class Computed(NamedTuple):
    row: int
    col: int
    masked: bool


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Computed]:
    """Every tile that is computed, in order."""
    seen: list[Computed] = []

    def watched(call: Call, rows: range, cols: range, masked: bool) -> Any:
        seen.append(Computed(rows.start, cols.start, masked))
        return score_tile(call, rows, cols, masked)

    monkeypatch.setattr(tile, "score_tile", watched)
    return seen


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> regard.Attention:
    return regard.attend(q, k, v, implementation="tiled", **options)


# ── which tiles ──────────────────────────────────────────────────────────────────────────────

SQUARE = 1024  # 8 blocks of queries × 2 tiles of keys
EVERY = [(row, col) for row in range(0, SQUARE, ROWS) for col in (0, KEYS)]


def wanted(mask: Mask | None) -> list[tuple[int, int]]:
    """Tiles in which some cell is visible, looked up cell by cell."""
    i, extent = torch.arange(SQUARE), Extent(SQUARE, SQUARE, (), 1)
    seen = torch.tensor(True) if mask is None else mask.allows(i, i, extent)
    seen = seen.expand(1, SQUARE, SQUARE)[0]
    return [(r, c) for r, c in EVERY if seen[r : r + ROWS, c : c + KEYS].any()]


@pytest.mark.parametrize(
    ("mask", "count", "whole"),
    [
        (None, 16, 16), (regard.Causal(), 12, 4), (regard.Window(10), 9, 0),
        (regard.Window(None, None), 16, 16), (regard.Prefix(torch.tensor(500)), 8, 0),
        (regard.Prefix(torch.tensor(512)), 8, 8),
        (regard.Causal() & regard.Prefix(torch.tensor(512)), 8, 4),
        (regard.Documents(torch.arange(SQUARE) // 512), 8, 8), (~regard.Causal(), 12, 4),
    ],
    ids=repr,
)  # fmt: skip
def test_hidden_tiles_are_skipped_and_whole_ones_not_masked(
    computed: list[Computed], mask: Mask | None, count: int, whole: int
) -> None:
    """In every sweep: rows, sums over queries, the backward."""
    q, k = (random(2, SQUARE, 4).requires_grad_() for _ in range(2))
    a = attend(q, k, k, mask=mask)
    rows = list(computed)
    assert [(seen.row, seen.col) for seen in rows] == wanted(mask)
    assert (len(rows), sum(not seen.masked for seen in rows)) == (count, whole)
    for sweep in (a.detach().received, lambda: a.output.sum().backward()):
        computed.clear()
        sweep()
        assert computed == rows


def test_a_cell_costs_one_tile(computed: list[Computed]) -> None:
    q, k = random(2, 300, 4), random(2, 1200, 4, seed=1)
    a = attend(q, k, k)
    computed.clear()
    assert a[1, 140, 700].shape == ()
    assert computed == [Computed(128, 512, False)]
    computed.clear()
    assert a[:, [0, 299], 5].shape == (2, 2)
    assert computed == [Computed(0, 0, False), Computed(256, 0, False)]
