"""The loop over tiles: which are computed, that a cell has one value, what dropout leaves."""

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


# ── what a tile holds ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cell_has_the_same_bits_whatever_surrounds_it(dtype: torch.dtype) -> None:
    q, k = random(1, 2, 150, 16, dtype=dtype) * 9, random(1, 2, 700, 16, seed=1, dtype=dtype)
    every = attend(q, k, k, mask=regard.Prefix(100))
    few = attend(q[..., :40, :], k[..., :100, :], k[..., :100, :])
    assert torch.equal(every.scores[..., :40, :100], few.scores[...])
    assert torch.equal(every.dense()[..., :40, :100], few.dense())
    assert torch.equal(every.output[..., :40, :], few.output)
    assert torch.equal(every.lse[..., :40], few.lse)
    assert torch.equal(few.rows([39]), few.dense()[..., [39], :])


# ── dropout ──────────────────────────────────────────────────────────────────────────────────


def dropped(q: Tensor, k: Tensor, v: Tensor, p: float = 0.4, seed: int = 3) -> regard.Attention:
    torch.manual_seed(seed)
    return attend(q, k, v, dropout=p, mask=regard.Causal())


def kept(p: float, seed: int = 3) -> Tensor:
    """(300, 700): what becomes of weights that are equal, relative to what they were."""
    q, v = torch.zeros(1, 300, 4, dtype=torch.float64), torch.eye(700, dtype=torch.float64)[None]
    torch.manual_seed(seed)
    output: Tensor = attend(q, torch.zeros(1, 700, 4, dtype=torch.float64), v, dropout=p).output[0]
    return output * 700


@pytest.mark.parametrize("p", [0.25, 0.5, 0.9])
def test_what_stays_makes_up_for_what_goes(p: float) -> None:
    """Alike every time a seed is set, and unlike in every tile."""
    mask = kept(p)
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
    assert float(mask.mean()) == pytest.approx(1.0, abs=0.1)
    assert torch.equal(mask, kept(p)) and not torch.equal(mask, kept(p, seed=4))
    first = mask[:100, :100]
    assert not torch.equal(first, mask[128:228, :100])
    assert not torch.equal(first, mask[:100, 512:612])


def test_dropping_everything() -> None:
    q = random(1, 2, 5, 4)
    a = attend(q, q, q, dropout=1.0)
    assert not a.output.any() and a.lse.isfinite().all()


def test_the_seed_decides_and_statistics_never_see_dropout() -> None:
    q, k = random(1, 2, 140, 4), random(1, 2, 600, 4, seed=1)
    a, plain = dropped(q, k, k), attend(q, k, k, mask=regard.Causal())
    assert torch.equal(a.output, dropped(q, k, k).output)
    assert not torch.equal(a.output, attend(q, k, k, dropout=0.4, mask=regard.Causal()).output)
    assert not torch.equal(a.output, plain.output)
    for ask in (regard.Entropy(), regard.Received()):
        assert torch.equal(a.summarize(ask)[ask], plain.summarize(ask)[ask])
    assert torch.equal(a.lse, plain.lse) and torch.equal(a.dense(), plain.dense())


def test_the_backward_drops_what_the_forward_dropped() -> None:
    q, k, v = (random(1, 2, 6, 3, seed=n).requires_grad_() for n in range(3))
    assert torch.autograd.gradcheck(lambda *x: dropped(*x).output, (q, k, v), atol=1e-7)
