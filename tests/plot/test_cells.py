"""Cells: against the dense truth and against the terminal's picture of the same head."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plot.pictures import sight
from regard.draw.pages.picture import make_picture
from regard.errors import InputError, UnavailableError
from regard.mask import Causal, Table, Window
from regard.plot.cells import Cells, even_mass, fitting_cell, make_cells
from regard.recording.sight import Sight
from regard.testing.recordings import Chunk, in_memory

N = 50
MASKS = {
    "causal": Causal(),
    "window": Causal() & Window(7),
    "table": Table(torch.tril(torch.rand(N, N, generator=torch.Generator().manual_seed(3)) > 0.4)),
}


def made(mask="causal", **options):
    """A prompt of fifty tokens and the dense truth (H, L, S) of its first layer."""
    chunks = [Chunk((0, N), (0, N), MASKS[mask])]
    rec, truths = in_memory([f" t{n}" for n in range(N)], layers=2, chunks=chunks, **options)
    return rec.prompts[0], truths[0, 0].truth


def seen_by(prompt, label):
    head = prompt[label]
    return head, Sight(prompt.held(head.place.label), head.head)


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("cell", [1, 7, 16])
@pytest.mark.parametrize("mask", MASKS)
def test_pictures_and_terminal_show_the_same_numbers(mask, cell, how):
    prompt, _ = made(mask)
    head, eyes = seen_by(prompt, "L0H1")
    found, wanted = make_cells(head, eyes, cell, how), make_picture(prompt, head, cell, how)
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-12)
    np.testing.assert_allclose(found.times, wanted.times, rtol=1e-9)


def test_one_token_a_cell_is_the_matrix_times_the_rows_length():
    prompt, truth = made()
    found = make_cells(*seen_by(prompt, "L0H1"), 1, "mean")
    seen = np.tri(N, dtype=bool)
    times = truth.weights()[1] * np.arange(1, N + 1)[:, None]
    np.testing.assert_allclose(found.times[seen], times[seen], rtol=1e-4)
    assert np.isnan(found.times[~seen]).all() and np.isnan(found.weights[~seen]).all()


@pytest.mark.parametrize("mask", MASKS)
def test_even_mass_is_what_an_even_spread_would_give(mask):
    prompt, truth = made(mask)
    head, eyes = seen_by(prompt, "L0H0")
    seen = truth.exact.visible.numpy()[0].astype(float)
    even = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    wanted = even.reshape(5, 10, 5, 10).sum((1, 3))
    np.testing.assert_allclose(even_mass(head, eyes, 10), wanted, rtol=1e-12)


def test_a_mask_without_intervals_is_seen_in_the_scores():
    """Asking it once a column would look at every cell of the matrix each time."""
    prompt, _ = made("table")
    head, eyes = seen_by(prompt, "L0H0")
    assert eyes.cells() == N * N
    silent = SimpleNamespace(is_complete=True, cells=eyes.cells)  # cannot be asked
    np.testing.assert_allclose(even_mass(head, silent, 10), even_mass(head, eyes, 10))


def test_a_kept_map_needs_no_single_weights():
    prompt, _ = made("table")
    head, eyes = seen_by(prompt, "L1H0")
    assert not head.exact
    found = make_cells(head, eyes, 16, "mean")
    known = ~np.isnan(found.weights)
    np.testing.assert_allclose(found.weights[known], head.stored["pooled"].values[known])
    with pytest.raises(UnavailableError, match="budget of 1 kB"):
        make_cells(head, eyes, 3, "mean")


def test_only_recorded_rows_are_shown():
    prompt, truth = made(rows=(40, N))
    found = make_cells(*seen_by(prompt, "L0H0"), 4, "mean")
    assert found.weights.shape == (3, 13) and found.first_row == 40
    assert found.weights[0, 0] == pytest.approx(truth.weights()[0][40:44, :4].mean(), rel=1e-4)


def test_a_row_that_sees_nothing_is_hidden():
    prompt, truth = made("table")
    blind = ~truth.exact.visible.numpy()[0].any(-1)
    found = make_cells(*seen_by(prompt, "L0H0"), 1, "mean")
    assert np.isnan(found.times[blind]).all()


def test_an_unknown_mask_cannot_be_drawn():
    prompt, _ = made()
    head = prompt["L0H0"]
    blind = SimpleNamespace(is_complete=False)
    with pytest.raises(UnavailableError, match="L0H0: its mask is not known"):
        make_cells(head, blind, 1, "mean")


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
    assert fitting_cell(prompt[head], None, side, how) == cell


def test_at_most_512_cells_unless_asked():
    long = SimpleNamespace(
        recorded=range(5120), shape=(5120, 5120), exact=True, has=lambda _: False,
        place=SimpleNamespace(pool_cell=0),
    )  # fmt: skip
    assert fitting_cell(long, None, 9999, "mean") == 10
    assert fitting_cell(long, 5, 9999, "mean") == 5


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (0, "a cell of 0 tokens; give a number ≥ 1"),
        (-3, "give a number"),
        (2, "a cell of 2 makes 25 cells a side, and 20 fit; give a cell of 3 or more"),
    ],
)
def test_cells_that_cannot_be(cell, words):
    prompt, _ = made()
    with pytest.raises(InputError, match=words):
        fitting_cell(prompt["L0H0"], cell, 20, "mean")


def test_in_words():
    nothing = np.zeros((1, 1))
    assert Cells(1, "mean", 0, nothing, nothing).pooling == "one token a cell"
    assert Cells(16, "mean", 0, nothing, nothing).pooling == "mean of 16×16 tokens a cell"
    assert Cells(4, "max", 0, nothing, nothing).pooling == "max of 4×4 tokens a cell"


def test_the_toy_sight_of_these_tests_agrees():
    prompt, truth = made("table")
    head, eyes = seen_by(prompt, "L1H0")  # not exact: the mask itself is asked
    toy = sight(truth.exact.visible.numpy()[0])
    np.testing.assert_allclose(even_mass(head, toy, 8), even_mass(head, eyes, 8))
