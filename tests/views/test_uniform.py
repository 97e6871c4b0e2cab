"""Maps that fit: cells against the dense truth, pooled, masked, cropped to what was recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import UnavailableError
from regard.mask import Causal, Table, Window
from regard.views.uniform import codes_of, even_sums, fitting_cell, make_cells, sight_of
from support.recordings import Chunk, in_memory

N = 50
MASKS = {
    "causal": Causal(),
    "window": Causal() & Window(7),
    "table": Table(torch.tril(torch.rand(N, N, generator=torch.Generator().manual_seed(3)) > 0.4)),
}


def made(**options):
    """A prompt of fifty tokens and the dense truth (H, L, S) of its first layer."""
    rec, truths = in_memory([f" t{n}" for n in range(N)], layers=2, **options)
    return rec.prompts[0], truths[0, 0].truth.weights()


def test_pooled_cells_compare_with_uniform_attention():
    prompt, truth = made()
    picture = make_cells(prompt, prompt["L0H1"], 10, "mean")
    even = np.tri(N) / np.arange(1, N + 1)[:, None]
    mass, chance = (m.reshape(5, 10, 5, 10).sum((1, 3)) for m in (truth[1], even))
    seen = np.tri(5, dtype=bool)
    np.testing.assert_allclose(picture.times[seen], (mass / np.where(seen, chance, 1))[seen], 1e-4)
    assert np.isnan(picture.times[~seen]).all()


def test_the_largest_weight_of_a_cell():
    prompt, truth = made()
    picture = make_cells(prompt, prompt["L0H1"], 10, "max")
    largest = truth[1].reshape(5, 10, 5, 10).max((1, 3))
    lengths = np.arange(1, N + 1).reshape(5, 10).mean(1)[:, None]
    seen = np.tri(5, dtype=bool)
    np.testing.assert_allclose(picture.weights[seen], largest[seen], rtol=1e-4)
    np.testing.assert_allclose(picture.times[seen], (largest * lengths)[seen], rtol=1e-4)


@pytest.mark.parametrize(
    ("head", "side", "how", "cell"),
    [
        ("L0H0", 50, "mean", 1),
        ("L0H0", 49, "mean", 2),
        ("L0H0", 3, "mean", 32),  # 17 would do, but the kept map has 16
        ("L0H0", 3, "max", 17),
        ("L1H0", 50, "mean", 16),  # nothing finer was kept
        ("L1H0", 2, "mean", 32),
    ],
)
def test_cells_are_as_small_as_fits(head, side, how, cell):
    prompt, _ = made()
    assert fitting_cell(prompt[head], side, how) == cell


def test_a_kept_map_needs_no_single_cells():
    prompt, _ = made()
    picture = make_cells(prompt, prompt["L1H0"], 16, "mean")
    np.testing.assert_allclose(
        picture.weights[np.tri(4, dtype=bool)],
        prompt["L1H0"].stored["pooled"].values[np.tri(4, dtype=bool)],
    )
    with pytest.raises(UnavailableError, match="budget of 1 kB"):
        make_cells(prompt, prompt["L1H0"], 3, "mean")


def test_only_recorded_rows_are_shown():
    chunks = [Chunk((0, N), (0, N), Causal())]
    prompt, truth = made(chunks=chunks, rows=(40, N))
    picture = make_cells(prompt, prompt["L0H0"], 4, "mean")
    assert picture.weights.shape == (3, 13) and picture.first_row == 40
    assert picture.weights[0, 0] == pytest.approx(truth[0][40:44, :4].mean(), rel=1e-4)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("label", ["L0H0", "L1H0"])  # q and k are kept, or only a map is
def test_even_rows_hold_what_an_even_spread_gives(mask, label):
    rec, truths = in_memory(
        [f" t{n}" for n in range(N)], layers=2, chunks=[Chunk((0, N), (0, N), MASKS[mask])]
    )
    prompt, truth = rec.prompts[0], truths[0, 0].truth
    seen = truth.exact.visible.numpy()[0].astype(float)
    even = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    found = even_sums(sight_of(prompt, prompt[label]), 10)
    np.testing.assert_allclose(found, even.reshape(5, 10, 5, 10).sum((1, 3)), rtol=1e-12)


def test_a_row_that_sees_nothing_is_hidden():
    chunks = [Chunk((0, N), (0, N), MASKS["table"])]
    rec, truths = in_memory([f" t{n}" for n in range(N)], layers=1, chunks=chunks)
    blind = ~truths[0, 0].truth.exact.visible.numpy()[0].any(-1)
    found = make_cells(rec.prompts[0], rec["L0H0"], 1, "mean")
    assert blind.any() and np.isnan(found.times[blind]).all()


def test_codes_tell_what_is_hidden_from_what_is_no_number():
    mass, even = np.array([[1.0, 0.0, np.nan, 5.0]]), np.array([[1.0, 0.5, 0.5, 0.0]])
    made = codes_of(mass, even)
    assert made.codes[0, 2] == made.codes[0, 3] == 0 and made.nan == 1
    assert made.codes[0, 0] > made.codes[0, 1] == 1
