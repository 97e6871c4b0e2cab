"""Weights have the same bits however they are asked for, and rows sum to one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import FileError
from regard.mask import Causal, Verdict, Window
from regard.recording import Memory, Recording
from regard.recording.replay import Block, RowState
from support.recordings import Chunk, write_recording


def head(n: int = 600, **options):
    chunks = options.pop("chunks", [Chunk((0, n), (0, n), Causal())])
    store, made = write_recording(chunks=chunks, statistics=False, pieces=100, **options)
    return Recording(store)["L0H1"], made


@pytest.mark.parametrize("lse", [True, False])
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_bits_do_not_depend_on_the_company(lse, spread):
    whole, _ = head(lse=lse, spread=spread)
    dense = whole.dense()
    dice = np.random.default_rng(0)
    for _ in range(20):
        alone, _ = head(lse=lse, spread=spread)  # a fresh one: nothing computed yet
        rows = dice.choice(600, dice.integers(1, 300), replace=False)
        cols = dice.choice(600, dice.integers(1, 600), replace=False)
        np.testing.assert_array_equal(alone[rows[:, None], cols], dense[np.ix_(rows, cols)])
        np.testing.assert_array_equal(alone.rows(rows), dense[rows])
        np.testing.assert_array_equal(alone[int(rows[0])], dense[rows[0]])


@pytest.mark.parametrize("lse", [True, False])
def test_rows_sum_to_one(lse):
    for spread in (0.1, 1.0, 60.0, 30000.0):
        whole, _ = head(lse=lse, spread=spread)
        np.testing.assert_allclose(whole.dense().sum(-1), 1, atol=2e-5)


def test_pieces_do_not_change_the_bits():
    one, _ = head()
    store, _ = write_recording(
        chunks=[Chunk((0, 600), (0, 600), Causal())], statistics=False, pieces=37
    )
    np.testing.assert_array_equal(Recording(store)["L0H1"].dense(), one.dense())


def test_chunks_do_not_change_the_bits():
    chunks = [Chunk((a, b), (0, b), Causal()) for a, b in ((0, 100), (100, 333), (333, 600))]
    np.testing.assert_array_equal(head(chunks=chunks)[0].dense(), head()[0].dense())


def test_hidden_tiles_are_not_computed(monkeypatch):
    window = Chunk((0, 3000), (0, 3000), Window(10))
    narrow, _ = head(3000, chunks=[window], heads=2, key_heads=1)
    counted, product = [], Block._product
    monkeypatch.setattr(
        Block, "_product", lambda self, at, n: counted.append(n) or product(self, at, n)
    )
    narrow.concentration()
    assert sum(counted) < 40 * 512  # keys, of 72 canonical tiles of them


def test_masks_are_not_asked_where_everything_is_seen(monkeypatch):
    whole, _ = head(1500)
    asked = []
    hide = Block._bias_and_hide
    monkeypatch.setattr(
        Block, "_bias_and_hide", lambda self, s, at, v: asked.append(v) or hide(self, s, at, v)
    )
    whole.concentration()
    assert Verdict.ALL in asked and Verdict.SOME in asked and Verdict.NONE not in asked


def test_a_missing_lse_is_computed():
    one, made = head(lse=False)
    np.testing.assert_allclose(one.lse, made.truth.exact.lse[1], atol=1e-5)
    np.testing.assert_allclose(one.dense(), made.truth.weights()[1], atol=1e-6)


def test_a_wrong_lse_is_told_where_it_is_noticed():
    store, _ = write_recording(chunks=[Chunk((0, 99), (0, 99), Causal())], statistics=False)
    other = Memory()
    other.note(store.metadata)
    for name, entry in store.entries.items():
        words = store.words(name)
        other.add(name, words + 1 if "lse" in name else words, entry.metadata)
    one = Recording(other)["L0H0"]
    with pytest.raises(FileError, match="L0H0: the stored lse of row 0 is"):
        one.entropy()


def test_numbers_that_are_none_show():
    q = torch.randn(4, 50, 16)
    q[1, 7, 3] = torch.nan
    one, _ = head(50, query=q, lse=False)
    assert np.isnan(one[7, :8]).all() and np.isfinite(one[8]).all()
    assert np.isnan(one.entropy()[7]) and np.isfinite(one.entropy()[8])


def test_two_numbers_keep_what_one_would_lose():
    scores = np.array([[64000.0, 63999.0]], np.float32)
    state = RowState(np.array([64000.0], np.float32), np.float32([np.log(1 + np.exp(-1.0))]))
    assert state.weights(scores).sum() == pytest.approx(1, abs=1e-6)
    blind = RowState(state.base + state.log, np.zeros(1, np.float32))
    assert abs(blind.weights(scores).sum() - 1) > 1e-4
    empty = RowState(np.float32([-np.inf]), np.zeros(1, np.float32))
    assert empty.weights(np.full((1, 2), -np.inf, np.float32)).tolist() == [[0, 0]]
