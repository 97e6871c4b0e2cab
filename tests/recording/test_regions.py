"""Cells of a table, wherever it starts and ends."""

from __future__ import annotations

import numpy as np
import pytest

from regard.mask import Causal
from regard.recording import Recording
from regard.recording.collect import areas, pool
from support.recordings import Chunk, write_recording

SIZES = [1, 2, 63, 64, 123, 256]


@pytest.mark.parametrize("cell", [1, 2, 3, 8, 64, 300])
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("first", [(0, 0), (0, 64), (5, 0), (63, 130), (256, 1)])
def test_every_number_goes_into_its_own_cell(cell, rows, first):
    width = SIZES[-1 - SIZES.index(rows)]
    table = np.random.default_rng(cell).random((rows, width)).astype(np.float32)
    down, across = (
        (start + np.arange(n)) // cell for start, n in zip(first, table.shape, strict=True)
    )
    down, across = down - down[0], across - across[0]
    sums, largest = (np.zeros((down[-1] + 1, across[-1] + 1)) for _ in range(2))
    np.add.at(sums, np.ix_(down, across), table)
    np.maximum.at(largest, np.ix_(down, across), table)
    np.testing.assert_allclose(pool(np.add, table, cell, first), sums, rtol=1e-5)
    np.testing.assert_array_equal(pool(np.maximum, table, cell, first), largest)


def test_what_is_no_number_stays_in_its_cell():
    table = np.zeros((8, 8), np.float32)
    table[5, 2] = np.nan
    for reduce in (np.add, np.maximum):
        assert np.argwhere(np.isnan(pool(reduce, table, 4, (0, 0)))).tolist() == [[1, 0]]
        assert np.argwhere(np.isnan(pool(reduce, table, 4, (1, 3)))).tolist() == [[1, 1]]


@pytest.mark.parametrize("tokens", [1, 63, 300, 700])
@pytest.mark.parametrize("cell", [1, 7, 64, 512])
def test_a_map_is_the_mean_and_the_largest_of_the_matrix(tokens, cell):
    chunks = [Chunk((0, tokens), (0, tokens), Causal())]
    store, made = write_recording(chunks=chunks, heads=2, key_heads=1, statistics=False)
    head = Recording(store).prompts[0]["L0H1"]
    weights = made.truth.weights()[1]
    starts = np.arange(0, tokens, cell)
    for how, reduce in (("mean", np.add), ("max", np.maximum)):
        want = reduce.reduceat(reduce.reduceat(weights, starts, axis=0), starts, axis=1)
        want = want / areas(head.shape, cell) if how == "mean" else want
        np.testing.assert_allclose(head.pooled(cell, how), want, rtol=1e-4, atol=1e-9)
