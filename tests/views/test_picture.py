"""What is laid over pictures, against the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from regard.axes import Axis, Frames, Grid, Tokens
from regard.errors import InputError, UnavailableError
from regard.mask import Causal, Window
from regard.views.picture import Place, overlay, received_overlay, spot
from support.recordings.sighted import sighted

VIT = Axis((Grid(3, 5, prefix=2, names=("class", "register 1")),))
WORDS = ["<s>", "a", *["<image>"] * 16, " red", " ball"]
TOLD = Axis((Tokens(2), Grid(4, 4, merge=2), Tokens(2)))


def dense(made, layer, head):
    return made[layer].truth.weights()[head]


def test_a_row_is_laid_over_the_patches_of_the_keys():
    rec, made = sighted(VIT)
    found = overlay(rec["L1H2"], query=7)
    row = dense(made, 1, 2)[7]
    (laid,) = found.grids
    assert laid.weights.shape == (1, 3, 5)
    assert laid.weights.dtype == np.float32
    assert laid.weights[0] == pytest.approx(row[2:].reshape(3, 5), abs=1e-6)
    assert laid.times[0] == pytest.approx(17 * row[2:].reshape(3, 5), abs=1e-4)
    assert [name for name, *_ in laid.prefix] == ["class", "register 1"]
    assert [weight for _, weight, _ in laid.prefix] == pytest.approx(row[:2].tolist(), abs=1e-6)
    assert (laid.picture, laid.start, found.kind, found.at) == (0, 0, "row", 7)


def test_a_column_is_laid_over_the_patches_of_the_queries():
    rec, made = sighted(TOLD, tokens=WORDS, mask=Causal())
    found, key = overlay(rec["L0H1"], key=5), dense(made, 0, 1)[:, 5]
    lengths = np.arange(1, 21)
    (laid,) = found.grids
    for n in range(16):
        frame, row, column = laid.grid.cell(n)
        value = laid.weights[frame, row, column]
        if 2 + n < 5:
            assert np.isnan(value)  # it may not look there
        else:
            assert value == pytest.approx(key[2 + n], abs=1e-6)
            times = laid.times[frame, row, column]
            assert times == pytest.approx(key[2 + n] * lengths[2 + n], abs=1e-4)
    assert found.weights[18:] == pytest.approx(key[18:], abs=1e-6)


def test_the_mass_of_a_row_divides_between_words_and_picture():
    rec, made = sighted(TOLD, tokens=WORDS, mask=Causal())
    found, row = overlay(rec["L0H0"], query=-1), dense(made, 0, 0)[19]
    masses = [one.mass for one in found.masses]
    assert masses == pytest.approx([row[:2].sum(), row[2:18].sum(), row[18:].sum()], abs=1e-6)
    assert found.on_text == pytest.approx(row[:2].sum() + row[18:].sum(), abs=1e-6)
    assert [one.part.kind for one in found.masses] == ["text", "grid", "text"]
    vit = sighted(VIT)[0]
    (only,) = overlay(vit["L0H0"], query=3).masses
    assert only.mass + only.prefix == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mask", [None, Causal(), Causal() & ~Window(2, 0)])
def test_received_mass_is_a_mean_over_the_rows_that_see_a_key(mask):
    rec, made = sighted(TOLD, tokens=WORDS, mask=mask)
    truth = made[0].truth
    weights, seen = truth.weights()[2], truth.exact.visible.numpy()[2]
    found = received_overlay(rec["L0H2"])
    count = seen.sum(0)
    lengths = np.maximum(seen.sum(1, keepdims=True), 1)
    with np.errstate(invalid="ignore"):
        means, times = weights.sum(0) / count, weights.sum(0) / (seen / lengths).sum(0)
    assert found.weights == pytest.approx(means, abs=1e-6, nan_ok=True)
    assert found.times == pytest.approx(times, rel=1e-4, nan_ok=True)
    assert found.at is None


def test_frames_of_a_film_lie_on_pictures_of_their_own():
    film = Axis((Grid(2, 3, frames=4, prefix=1, names=("class",)),))
    rec, made = sighted(film)
    (laid,) = overlay(rec["L0H3"], query=9).grids
    row = dense(made, 0, 3)[9, 1:]
    assert laid.weights == pytest.approx(row.reshape(4, 2, 3), abs=1e-6)
    found = spot(film, 1 + 6 * 2 + 4)
    assert (found.words, found.picture, found.cell) == ("patch frame 2 (1, 1)", 2, (2, 1, 1))


def test_a_window_lies_where_the_model_moved_it():
    """Windows of 2 × 2 on 4 × 4 patches, moved by 1: the last one wraps round both edges."""
    grid = Grid(2, 2, windows=(2, 2), shift=1)
    rec, made = sighted(Axis((grid,)), heads=8)  # two heads a window
    (laid,) = overlay(rec["L0H7"], query=0).grids
    assert (laid.place.window, laid.place.size, laid.place.corner) == (3, (4, 4), (3, 3))
    row = dense(made, 0, 7)[0]
    over = laid.place.over_picture(laid.weights)[0]
    assert [over[3, 3], over[3, 0], over[0, 3], over[0, 0]] == pytest.approx(row, abs=1e-6)
    assert np.isnan(over).sum() == 12
    assert laid.place.box(1, 0) == (0.75, 0.0, 0.25, 0.25)
    first = overlay(rec["L0H1"], query=0).grids[0].place
    assert (first.window, first.corner) == (0, (1, 1))


def test_windows_that_are_pictures_cover_each_its_own():
    grid = Grid(2, 2, windows=(1, 3), apart=True, picture=1)
    place = Place(0, grid, 2)
    assert (place.picture, place.size, place.corner) == (3, (2, 2), (0, 0))
    assert spot(Axis((grid,)), 3, window=2).picture == 3
    assert Place(0, Grid(2, 2, picture=-1)).picture == -1


def test_spots_are_called_as_a_reader_would():
    assert spot(TOLD, 19, tokens=WORDS).words == "“ ball”"
    assert spot(TOLD, 19).words == "token 1"
    assert spot(TOLD, 4).words == "patch (1, 0)"  # blocks of 2 × 2
    assert spot(VIT, 1).words == "register 1"
    assert spot(VIT, 1).box is None
    assert spot(Axis((Frames(9, 0.02),)), 3).words == "0.06 s"
    with pytest.raises(InputError, match="position 20 of 20"):
        spot(TOLD, 20)


def test_one_question_at_a_time_and_about_what_there_is():
    head = sighted(VIT)[0]["L0H0"]
    for ask, says in (
        ({}, "give query or key"), ({"query": 1, "key": 1}, "give query or key"),
        ({"query": 17}, "row 17 does not exist"),
        ({"key": 17}, "key 17 does not exist; L0H0 has 0–16"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            overlay(head, **ask)


def test_summaries_alone_give_received_mass_and_say_why_no_rows():
    rec, made = sighted(VIT, exact=False)
    with pytest.raises(UnavailableError, match="budget"):
        overlay(rec["L0H0"], query=1)
    received = dense(made, 0, 0).mean(0)
    assert received_overlay(rec["L0H0"]).weights == pytest.approx(received, abs=1e-5)
    rec, made = sighted(VIT, rows=(4, 17))  # rows that were not recorded are unknown in a column
    column = overlay(rec["L0H1"], key=0).weights
    assert np.isnan(column[:4]).all()
    assert column[4:] == pytest.approx(dense(made, 0, 1)[4:, 0], abs=1e-6)
