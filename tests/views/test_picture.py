"""What is laid over pictures, against the dense matrix; rollout over them, in the study's own
shares; and pictures as colours, or one sentence why not."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from regard import study
from regard.axes import Axis, Frames, Grid, Tokens
from regard.errors import InputError, UnavailableError
from regard.mask import Causal, Window
from regard.recording import Memory, Recording
from regard.views.decoded import decoded
from regard.views.picture import Place, overlay, received_overlay, spot
from regard.views.rollout import rollout_answer
from support.recordings import png, scene, write_sighted
from support.recordings.sighted import sighted

VIT = Axis((Grid(3, 5, prefix=2, names=("class", "register 1")),))
WORDS = ["<s>", "a", *["<image>"] * 16, " red", " ball"]
TOLD = Axis((Tokens(2), Grid(4, 4, merge=2), Tokens(2)))


def weights_of(made, layer, head):
    return made[layer].truth.weights()[head]


def test_a_row_is_laid_over_the_patches_of_the_keys():
    rec, made = sighted(VIT)
    found = overlay(rec["L1H2"], query=7)
    row = weights_of(made, 1, 2)[7]
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
    found, key = overlay(rec["L0H1"], key=5), weights_of(made, 0, 1)[:, 5]
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
    found, row = overlay(rec["L0H0"], query=-1), weights_of(made, 0, 0)[19]
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
    row = weights_of(made, 0, 3)[9, 1:]
    assert laid.weights == pytest.approx(row.reshape(4, 2, 3), abs=1e-6)
    found = spot(film, 1 + 6 * 2 + 4)
    assert (found.words, found.picture, found.cell) == ("patch frame 2 (1, 1)", 2, (2, 1, 1))


def test_a_window_lies_where_the_model_moved_it():
    """Windows of 2 × 2 on 4 × 4 patches, moved by 1: the last one wraps round both edges."""
    grid = Grid(2, 2, windows=(2, 2), shift=1)
    rec, made = sighted(Axis((grid,)), heads=8)  # two heads a window
    (laid,) = overlay(rec["L0H7"], query=0).grids
    assert (laid.place.window, laid.place.size, laid.place.corner) == (3, (4, 4), (3, 3))
    row = weights_of(made, 0, 7)[0]
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
    received = weights_of(made, 0, 0).mean(0)
    assert received_overlay(rec["L0H0"]).weights == pytest.approx(received, abs=1e-5)
    rec, made = sighted(VIT, rows=(4, 17))  # rows that were not recorded are unknown in a column
    column = overlay(rec["L0H1"], key=0).weights
    assert np.isnan(column[:4]).all()
    assert column[4:] == pytest.approx(weights_of(made, 0, 1)[4:, 0], abs=1e-6)


@pytest.mark.parametrize(("query", "name"), [(0, "class"), (9, "(1, 2)"), (None, "class")])
def test_shares_are_those_of_the_study_and_of_the_matrices(query, name):
    rec, _ = sighted(VIT, layers=3)
    told = rollout_answer(rec, "", query)
    own = study.roll_out_picture(rec, query, stack="")
    assert told["shares"] == pytest.approx(own.shares.tolist(), abs=1e-7)
    assert told["on_patches"] == pytest.approx(sum(told["shares"][2:]), abs=1e-6)
    assert (told["start"], told["layers"], told["why"], told["caution"]) == (name, 3, "", "")
    assert "residual stream" in told["what"]


def test_a_causal_stack_comes_with_its_caution():
    told = rollout_answer(sighted(TOLD, mask=Causal())[0], "", 19)
    assert told["shares"][18] > 0
    assert told["caution"].startswith("Rollout was published for encoders")
    assert told["caution"].endswith("not as importance.")


@pytest.mark.parametrize(
    ("axis", "options", "why"),
    [
        (Axis((Grid(2, 2, windows=(2, 2)),)), {}, "within windows"),
        (Axis((Grid(2, 2, windows=(1, 4), apart=True),)), {},
         "over several pictures, by themselves"),
        (VIT, {"exact": False}, "Rollout needs q and k of every layer: L0H0"),
        (Axis((Tokens(9),)), {}, "The keys of the stack '' are no patches of a picture."),
    ],
)  # fmt: skip
def test_what_cannot_be_rolled_out_is_told_in_a_sentence(axis, options, why):
    told = rollout_answer(sighted(axis, **options)[0], "", 0)
    assert why in told["why"] and told["shares"] == []
    assert told["why"][0].isupper() and told["why"].endswith(".")


AXIS = Axis((Grid(4, 4),))


def prompt(data=None, note=None):
    store = Memory()
    write_sighted(store, AXIS, layers=1, pictures=None if data is None else [data])
    if note:
        store.note({"pictures/0": json.dumps([note])})
    return Recording(store).prompts[0]


def noted(width, height, kind="image/png"):
    return {"width": width, "height": height, "type": kind}


def test_the_pixels_are_those_that_were_kept():
    found = decoded(prompt(), 0)
    assert np.array_equal(found.pixels, scene(96, 96, 0))
    assert found.why_not == ""
    assert decoded(prompt(), 7) == decoded(prompt(), -1)
    assert decoded(prompt(), 7).why_not == "the recording holds no picture of it"


def test_grey_pictures_and_jpeg_have_three_colours():
    data = io.BytesIO()
    Image.fromarray(np.full((8, 8), 100, np.uint8)).save(data, "JPEG")
    found = decoded(prompt(data.getvalue(), noted(8, 8, "image/jpeg")), 0)
    assert found.pixels.shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("data", "note", "says"),
    [
        (png(scene(96, 96))[:200], None, "cannot be decoded"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), None, "cannot be decoded"),
        (png(scene(96, 96))[:-40], None, "cannot be decoded"),
        (png(scene(32, 32)), None, "another size than its note says"),
        (png(scene(96, 96)), noted(8000, 8000), "8000 × 8000 pixels is not decoded"),
        (b"GIF89a", None, "does not begin as image/png"),
    ],
)  # fmt: skip
def test_what_is_no_picture_is_told_in_a_line(data, note, says):
    found = decoded(prompt(data, note), 0)
    assert found.pixels is None
    assert says in found.why_not
    assert "\n" not in found.why_not


def test_without_pillow_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "pip install 'regard[vision]'" in decoded(prompt(), 0).why_not
