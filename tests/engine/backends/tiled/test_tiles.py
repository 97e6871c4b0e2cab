"""The loop over tiles: which are computed, what they hold, what dropout leaves of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import api
from regard.engine.backends.tiled import TILED, tile
from regard.engine.backends.tiled.tile import (
    KEYS,
    ROWS,
    blocks_of,
    grouped,
    inside,
    kept_by_dropout,
    places_in,
    score_tile,
    tiles_of,
    times,
    weights_of,
)
from regard.engine.call import Call, RowState
from regard.mask import Mask


class Seen(NamedTuple):
    row: int
    col: int
    masked: bool


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """Every tile that is computed, in order."""
    seen: list[Seen] = []

    def watched(call: Call, rows: range, cols: range, masked: bool) -> Any:
        seen.append(Seen(rows.start, cols.start, masked))
        return score_tile(call, rows, cols, masked)

    monkeypatch.setattr(tile, "score_tile", watched)
    return seen


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def call_of(queries: int, keys: int, mask: Mask | None = None, dropout: float = 0.0) -> Call:
    q, k = random(2, queries, 4), random(1, keys, 4, seed=1)
    return api._call(q, k, k, mask, None, None, None, None, dropout)


def attend(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> regard.Attention:
    return regard.attend(q, k, v, implementation="tiled", **options)


# ── which tiles ──────────────────────────────────────────────────────────────────────────────

SQUARE = 1024  # 8 blocks of queries × 2 tiles of keys
EVERY = [(row, col) for row in range(0, SQUARE, ROWS) for col in (0, KEYS)]


def wanted(mask: Mask | None) -> list[tuple[int, int]]:
    """Tiles in which some cell is visible, looked up cell by cell."""
    call = call_of(SQUARE, SQUARE, mask)
    i, extent = torch.arange(SQUARE), call.shape.extent
    seen = torch.tensor(True) if mask is None else mask.allows(i, i, extent)
    seen = seen.expand(extent.full)[0]
    return [(r, c) for r, c in EVERY if seen[r : r + ROWS, c : c + KEYS].any()]


@pytest.mark.parametrize(
    ("mask", "count", "whole"),
    [
        (None, 16, 16),
        (regard.Causal(), 12, 4),
        (regard.Window(10), 9, 0),
        (regard.Window(None, None), 16, 16),
        (regard.Prefix(torch.tensor(500)), 8, 0),
        (regard.Prefix(torch.tensor(512)), 8, 8),
        (regard.Causal() & regard.Prefix(torch.tensor(512)), 8, 4),
        (regard.Documents(torch.arange(SQUARE) // 512), 8, 8),
        (~regard.Causal(), 12, 4),
    ],
    ids=repr,
)
def test_hidden_tiles_are_skipped_and_whole_ones_not_masked(
    computed: list[Seen], mask: Mask | None, count: int, whole: int
) -> None:
    TILED.rows(call_of(SQUARE, SQUARE, mask), True, ())
    assert [(seen.row, seen.col) for seen in computed] == wanted(mask)
    assert len(computed) == count
    assert sum(not seen.masked for seen in computed) == whole


def test_every_sweep_skips(computed: list[Seen]) -> None:
    call = call_of(SQUARE, SQUARE, regard.Window(10))
    state = TILED.rows(call, False, ()).state
    rows = list(computed)
    for sweep in ("columns", "backward"):
        computed.clear()
        if sweep == "columns":
            TILED.columns(call, state, None, None)
        else:
            TILED.backward(call, state, torch.ones(2, SQUARE, 4), state.lse, None)
        assert computed == rows, sweep


def test_a_cell_costs_one_tile(computed: list[Seen]) -> None:
    q, k = random(2, 300, 4), random(2, 1200, 4, seed=1)
    a = attend(q, k, k)
    computed.clear()
    assert a[1, 140, 700].shape == ()
    assert computed == [Seen(128, 512, False)]
    computed.clear()
    assert a[:, [0, 299], 5].shape == (2, 2)
    assert computed == [Seen(0, 0, False), Seen(256, 0, False)]


def test_blocks_cover_every_query_once() -> None:
    for queries in (0, 1, 127, 128, 129, 300):
        assert [i for block in blocks_of(queries) for i in block] == list(range(queries))


# ── what a tile holds ────────────────────────────────────────────────────────────────────────


def test_a_tile_has_one_shape_and_nothing_outside() -> None:
    call = call_of(130, 520, regard.Causal())
    for rows in blocks_of(130):
        for one in tiles_of(call, rows):
            assert one.scores.shape == (2, ROWS, KEYS)
            assert (one.scores[..., len(one.cols) :] == -torch.inf).all()
            assert inside(one.scores, one).shape == (2, len(one.rows), len(one.cols))


def test_scores_before_cap_bias_and_mask_are_kept() -> None:
    q, k = random(1, 3, 4), random(1, 5, 4, seed=1)
    bias = random(3, 5, seed=2)
    call = api._call(q, k, k, regard.Causal(), 0.5, bias, 2.0, None, 0.0)
    one = score_tile(call, range(3), range(5), masked=True)
    plain = q @ k.mT * 0.5
    torch.testing.assert_close(inside(one.scaled, one), plain)
    capped = 2 * torch.tanh(plain / 2)
    hidden = ~torch.tril(torch.ones(3, 5), 2).bool()
    torch.testing.assert_close(
        inside(one.scores, one), (capped + bias).masked_fill(hidden, -torch.inf)
    )
    assert one.slope is not None
    torch.testing.assert_close(inside(one.slope, one), 1 - (capped / 2) ** 2)


def test_weights_of_a_row_that_sees_nothing_are_zero() -> None:
    call = call_of(2, 3)
    one = score_tile(call, range(2), range(3), masked=False)
    state = RowState(torch.tensor([[-torch.inf, 1.0]] * 2), torch.zeros(2, 2))
    found = inside(weights_of(one, state), one)
    assert not found[:, 0].any()
    torch.testing.assert_close(found[:, 1], (inside(one.scores, one)[:, 1] - 1).exp())


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


def test_shared_heads() -> None:
    a, b = random(4, 3, 5), random(2, 5, 6, seed=1)
    torch.testing.assert_close(times(a, b), a @ b[[0, 0, 1, 1]])
    torch.testing.assert_close(grouped(a, 2), torch.stack([a[0] + a[1], a[2] + a[3]]))
    assert grouped(a, 1) is a


def test_places_in_a_range() -> None:
    assert places_in(torch.tensor([7, 2, 9, 2, 4]), range(2, 5)).tolist() == [1, 3, 4]


# ── dropout ──────────────────────────────────────────────────────────────────────────────────


def kept(call: Call, row: int = 0, col: int = 0) -> Tensor:
    rows, cols = range(row, row + 100), range(col, col + 100)
    found = kept_by_dropout(call, score_tile(call, rows, cols, masked=False))
    assert found is not None
    return found


def test_no_dropout_keeps_everything() -> None:
    call = call_of(10, 10)
    assert kept_by_dropout(call, score_tile(call, range(10), range(10), masked=False)) is None


def test_a_tile_is_dropped_alike_every_time_and_unlike_its_neighbours() -> None:
    call = replace(call_of(300, 700, dropout=0.25), seed=7)
    first = kept(call)
    assert torch.equal(first, kept(call))
    for other in (kept(call, 128), kept(call, 0, 512), kept(replace(call, seed=8))):
        assert not torch.equal(first, other)


@pytest.mark.parametrize("p", [0.25, 0.5, 0.9])
def test_what_stays_makes_up_for_what_goes(p: float) -> None:
    found = kept(call_of(300, 700, dropout=p))
    assert found.unique().tolist() == [0.0, pytest.approx(1 / (1 - p))]
    assert float(found.mean()) == pytest.approx(1.0, abs=0.1)


def test_dropping_everything() -> None:
    q = random(1, 2, 5, 4)
    a = attend(q, q, q, dropout=1.0)
    assert not a.output.any() and a.lse.isfinite().all()


def dropped(q: Tensor, k: Tensor, v: Tensor) -> regard.Attention:
    torch.manual_seed(3)
    return attend(q, k, v, dropout=0.4, mask=regard.Causal())


def test_the_seed_decides_and_statistics_never_see_dropout() -> None:
    q, k = random(1, 2, 140, 4), random(1, 2, 600, 4, seed=1)
    a, plain = dropped(q, k, k), attend(q, k, k, mask=regard.Causal())
    assert torch.equal(a.output, dropped(q, k, k).output)
    assert not torch.equal(a.output, attend(q, k, k, dropout=0.4, mask=regard.Causal()).output)
    assert not torch.equal(a.output, plain.output)
    for found, right in (
        (a.lse, plain.lse), (a.entropy(), plain.entropy()), (a.dense(), plain.dense()),
        (a.received(), plain.received()),
    ):  # fmt: skip
        assert torch.equal(found, right)


def test_the_backward_drops_what_the_forward_dropped() -> None:
    q, k, v = (random(1, 2, 6, 3, seed=n).requires_grad_() for n in range(3))
    assert torch.autograd.gradcheck(lambda *x: dropped(*x).output, (q, k, v), atol=1e-7)
