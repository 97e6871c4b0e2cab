"""What may be seen, in cells, against the masks taken one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.mask import Causal, Documents, Prefix, Window
from regard.recording import visibility as module
from regard.recording.visibility import seen_cells, uniform_cells
from regard.score import BiasTable, ScoreRule
from regard.views.uniform import sight_of
from support.recordings import Chunk, in_memory

N = 30
HIDING = torch.zeros(N, N).masked_fill(torch.arange(N) % 3 == 1, -torch.inf)
CHUNKS = {
    "causal": [Chunk((0, N), (0, N), Causal())],
    "no mask": [Chunk((0, N), (0, N))],
    "window": [Chunk((0, N), (0, N), Window(4))],
    "prefix": [Chunk((0, N), (0, N), Causal() | Prefix(torch.tensor(7)))],
    "with gaps": [Chunk((0, N), (0, N), Causal() & ~Window(3))],
    "documents": [Chunk((0, N), (0, N), Causal() & Documents(torch.arange(N) // 8))],
    "bias": [Chunk((0, N), (0, N), Causal(), ScoreRule(0.25, bias=BiasTable(HIDING)))],
    "chunks": [Chunk((0, 12), (0, 12), Causal()), Chunk((12, N), (0, N), Causal())],
}
KINDS = pytest.mark.parametrize("kind", CHUNKS)


def made(kind: str):
    """A sight, and the truth (L, S)."""
    rec, truths = in_memory(["x"] * N, layers=1, chunks=CHUNKS[kind])
    prompt = rec.prompts[0]
    visible = truths[0, 0].truth.exact.visible.numpy()[1]
    return sight_of(prompt, prompt["L0H1"]), visible


@KINDS
def test_cells_one_by_one(kind):
    sight, visible = made(kind)
    rows, keys = np.array([0, 5, 29, 12]), np.array([3, 0, 28])
    np.testing.assert_array_equal(seen_cells(sight, rows, keys), visible[np.ix_(rows, keys)])


@KINDS
@pytest.mark.parametrize("cell", [1, 4, 7, 30, 64])
def test_uniform_attention_in_cells(kind, cell):
    sight, visible = made(kind)
    even = visible / np.maximum(visible.sum(1, keepdims=True), 1)
    starts = np.arange(0, N, cell)
    sums = np.add.reduceat(np.add.reduceat(even, starts, 0), starts, 1)
    sides = np.minimum(starts + cell, N) - starts
    np.testing.assert_allclose(uniform_cells(sight, cell), sums / np.outer(sides, sides))


def test_many_rows_come_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    sight, visible = made("with gaps")
    even = visible / np.maximum(visible.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(uniform_cells(sight, 1), even)


def test_of_very_many_cells_some_rows_stand_for_all(monkeypatch):
    sight, _ = made("with gaps")
    whole = uniform_cells(sight, 10)
    monkeypatch.setattr(module, "_MOST", N * N // 2)
    some = uniform_cells(sight, 10)
    assert some.sum() == pytest.approx(whole.sum(), rel=0.1)
    assert ((some > 0) == (whole > 0)).mean() > 0.8
