"""Positions in words, and as the coordinates that tables have."""

from __future__ import annotations

import numpy as np
import pytest

from regard.axes import Axis, Frames, Grid, Other, Tokens
from regard.errors import InputError
from regard.views.picture import overlay
from regard.views.positions import axis_words, coordinates, find_patch, patch_scale, window_words
from regard.views.uniform import Look
from support.recordings import in_memory, sighted

VIT = Axis((Grid(3, 5, prefix=1, names=("class",)),))
WORDS = ["<s>", "a", *["<image>"] * 16, " red", " ball"]
TOLD = Axis((Tokens(2), Grid(4, 4, merge=2), Tokens(2)))
SWIN = Axis((Grid(2, 2, windows=(2, 3), shift=1),))


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        (VIT, "class + 3 × 5 patches"), (TOLD, "2 tokens + 4 × 4 patches + 2 tokens"),
        (Axis((Grid(2, 2, frames=8, prefix=3),)), "3 extra tokens + 8 frames of 2 × 2 patches"),
        (Axis((Frames(1500, 0.02),)), "1,500 moments of 0.02 s"),
        (Axis((Other(100, "object query"), Tokens(0))), "100 object queries"),
    ],
)  # fmt: skip
def test_an_axis_in_words(axis, words):
    assert axis_words(axis) == words


def test_names_are_tokens_in_the_text_and_places_in_the_picture():
    rec, _ = sighted(TOLD, tokens=WORDS)
    head = rec["L0H0"]
    assert head.key_names[:4] == ["<s>", "a", "(0, 0)", "(0, 1)"]
    assert head.key_names[4:6] == ["(1, 0)", "(1, 1)"]  # blocks of 2 × 2
    assert head.query_names[-2:] == [" red", " ball"]
    assert in_memory()[0]["L0H0"].key_names == in_memory()[0]["L0H0"].key_tokens


def test_every_weight_has_the_coordinates_of_both_sides():
    rec, made = sighted(TOLD, tokens=WORDS, layers=1)
    columns = rec.table("weights", heads="L0H1").columns
    truth = made[0].truth.weights()[1]
    grid = TOLD.parts[1]
    for n in range(0, len(columns["key"]), 7):
        query, key = int(columns["query"][n]), int(columns["key"][n])
        assert columns["weight"][n] == pytest.approx(truth[query, key], abs=1e-6)
        for side, at in (("query", query), ("key", key)):
            cell = grid.cell(at - 2) if 2 <= at < 18 else (-1, -1, -1)
            found = [columns[f"{side}_{name}"][n] for name in ("frame", "row", "column")]
            assert found == list(cell)
    assert "query_seconds" not in columns


def test_a_window_has_its_place_on_the_whole_picture():
    """2 × 3 windows of 2 × 2 patches, moved down and right by 1, cyclically."""
    rec, _ = sighted(SWIN, heads=12, layers=1)
    where = coordinates(rec.prompts[0], SWIN, window=5)
    assert where.row.tolist() == [3, 3, 0, 0]
    assert where.column.tolist() == [5, 0, 5, 0]
    assert window_words(rec["L0H11"]) == "head 1 in window 5 of 6, from patch (3, 5) on"
    received = rec.table("received", heads="L0H11").columns
    assert received["key_row"].tolist() == [3, 3, 0, 0]
    every = rec.table("positions").columns
    keys = every["side"] == "key"
    cells = set(zip(every["row"][keys].tolist(), every["column"][keys].tolist(), strict=True))
    assert cells == {(r, c) for r in range(4) for c in range(6)}  # each patch once
    assert keys.sum() == 24
    # a note that lies about windows would make a picture of any size
    axis = Axis((Grid(2, 2, windows=(2**20, 2**20)),))
    assert sighted(axis, layers=1, pictures=[])[0]["L0H0"].key_axis.is_text


def test_positions_of_a_text_and_a_picture():
    rec, _ = sighted(TOLD, tokens=WORDS, layers=2)
    table = rec.table("positions", heads="L1")
    found = table.columns
    assert len(table) == 40
    assert set(found["place"]) == {"L1"}
    assert found["kind"][:3].tolist() == ["text", "text", "grid"]
    assert found["name"][:3].tolist() == ["<s>", "a", "(0, 0)"]
    assert found["picture"][[0, 2]].tolist() == [-1, 0]
    assert np.isnan(found["seconds"]).all()
    with pytest.raises(InputError, match="positions cannot be restricted to rows"):
        rec.table("positions", rows=3)


def test_a_sound_has_seconds_and_no_patches():
    axis = Axis((Frames(6, 0.5, 1.0),))
    rec, _ = sighted(axis, layers=1)
    top = rec.table("top", top=1).columns
    assert top["key_seconds"].tolist() == (1.0 + 0.5 * top["key"]).tolist()
    assert "key_row" not in top
    assert rec.table("rows").columns["token"][:2].tolist() == ["1.00 s", "1.50 s"]


def test_a_film_has_frames_on_pictures_of_their_own():
    axis = Axis((Grid(2, 2, frames=3, picture=1),))
    rec, _ = sighted(axis, layers=1, seconds=[0, 0.5, 1.25, 2])
    where = coordinates(rec.prompts[0], axis)
    assert where.seconds.tolist() == [0.5] * 4 + [1.25] * 4 + [2] * 4
    top = rec.table("top", top=1).columns
    assert top["key_seconds"].tolist() == where.seconds[top["key"]].tolist()
    assert where.frame.tolist() == [n // 4 for n in range(12)]
    assert where.picture.tolist() == [1 + n // 4 for n in range(12)]


def test_tables_of_a_text_are_as_they_were():
    rec, _ = in_memory(exact=(0, 1))
    for what in ("rows", "top", "received", "weights"):
        names = [one.name for one in rec.table(what).schema]
        assert not [one for one in names if one.endswith(("_row", "_column", "_frame", "_seconds"))]


def test_patches_are_found_by_row_and_column():
    rec, _ = sighted(TOLD, tokens=WORDS)
    head = rec["L0H0"]
    assert head.key_names[find_patch(head, "key", "3, 1")] == "(3, 1)"
    film, _ = sighted(Axis((Grid(2, 2, frames=3),)))
    assert film["L0H0"].query_names[find_patch(film["L0H0"], "query", "2,1,0")] == "frame 2 (1, 0)"
    for text, says in (
        ("4,0", "there is no patch 4,0; L0H0 has 2 tokens"), ("1", "names no patch"),
        ("a,b", "names no patch"), ("-1,0", "names no patch"), ("9" * 30 + ",1", "names no patch"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            find_patch(head, "query", text)
    with pytest.raises(InputError, match="are no patches; give a number"):
        find_patch(in_memory()[0]["L0H0"], "query", "1,1")


def test_by_weight_patches_alone_make_the_scale():
    rec, made = sighted(TOLD, tokens=WORDS)
    over = overlay(rec["L0H1"], query=19)
    row = made[0].truth.weights()[1][19]
    assert patch_scale([over], Look(raw=True)).high == pytest.approx(row[2:18].max(), rel=1e-4)
