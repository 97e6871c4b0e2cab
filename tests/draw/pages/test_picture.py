"""Maps that fit: cells against the dense truth, pooled, masked, cropped to what was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from regard.draw import Paper, plain
from regard.draw.pages.picture import Look, draw_picture, fitting_cell, make_picture, pooling
from regard.errors import UnavailableError
from regard.mask import Causal
from regard.testing.recordings import WORDS, Chunk, in_memory

N = 50


def made(**options):
    """A prompt of fifty tokens and the dense truth (H, L, S) of its first layer."""
    rec, truths = in_memory([f" t{n}" for n in range(N)], layers=2, **options)
    return rec.prompts[0], truths[0, 0].truth.weights()


def test_one_token_a_cell_is_the_matrix_times_the_rows_length():
    prompt, truth = made()
    picture = make_picture(prompt, prompt["L0H1"], 1, "mean")
    seen = np.tri(N, dtype=bool)
    np.testing.assert_allclose(picture.weights[seen], truth[1][seen], rtol=1e-4)
    assert np.isnan(picture.weights[~seen]).all() and np.isnan(picture.times[~seen]).all()
    times = truth[1] * np.arange(1, N + 1)[:, None]
    np.testing.assert_allclose(picture.times[seen], times[seen], rtol=1e-4)


def test_pooled_cells_compare_with_uniform_attention():
    prompt, truth = made()
    picture = make_picture(prompt, prompt["L0H1"], 10, "mean")
    even = np.tri(N) / np.arange(1, N + 1)[:, None]
    mass, chance = (m.reshape(5, 10, 5, 10).sum((1, 3)) for m in (truth[1], even))
    seen = np.tri(5, dtype=bool)
    np.testing.assert_allclose(picture.times[seen], (mass / np.where(seen, chance, 1))[seen], 1e-4)
    assert np.isnan(picture.times[~seen]).all()


def test_the_largest_weight_of_a_cell():
    prompt, truth = made()
    picture = make_picture(prompt, prompt["L0H1"], 10, "max")
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
    picture = make_picture(prompt, prompt["L1H0"], 16, "mean")
    np.testing.assert_allclose(
        picture.weights[np.tri(4, dtype=bool)],
        prompt["L1H0"].stored["pooled"].values[np.tri(4, dtype=bool)],
    )
    with pytest.raises(UnavailableError, match="budget of 1 kB"):
        make_picture(prompt, prompt["L1H0"], 3, "mean")


def test_only_recorded_rows_are_shown():
    chunks = [Chunk((0, N), (0, N), Causal())]
    prompt, truth = made(chunks=chunks, rows=(40, N))
    picture = make_picture(prompt, prompt["L0H0"], 4, "mean")
    assert picture.weights.shape == (3, 13) and picture.rows.start == 40
    assert picture.weights[0, 0] == pytest.approx(truth[0][40:44, :4].mean(), rel=1e-4)


def test_short_texts_have_their_tokens_on_the_axes():
    rec, _ = in_memory()
    prompt = rec.prompts[0]
    picture = make_picture(prompt, prompt["L0H0"], 1, "mean")
    assert picture.rows.tokens == picture.keys.tokens == WORDS
    lines = plain(draw_picture(picture, Look(), Paper()))
    assert any(line.startswith("␣slept") for line in lines)


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Look(), "scale: × uniform, log, 0.1–100 · mean of 10×10 tokens a cell"),
        (Look(raw=True), "scale: weight, linear, 0–"),
    ],
)
def test_every_picture_says_its_scale(look, words):
    prompt, _ = made()
    picture = make_picture(prompt, prompt["L0H0"], 10, "mean")
    assert plain(draw_picture(picture, look, Paper()))[-1].startswith(words)


def test_pooling_in_words():
    assert pooling(1, "mean", Paper()) == "one token a cell"
    assert pooling(8, "max", Paper(is_ascii=True)) == "max of 8x8 tokens a cell"


def test_json_has_null_where_masked():
    prompt, _ = made()
    value = make_picture(prompt, prompt["L0H0"], 25, "mean").as_dict()
    assert value["cell"] == 25 and value["weights"][0][1] is None
    assert value["weights"][1][0] > 0 and value["times_uniform"][0][0] > 0
