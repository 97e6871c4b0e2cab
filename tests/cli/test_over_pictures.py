"""`regard show`, `plot` and `export` of a recording with a picture, as a shell sees them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from matplotlib.image import imread

from regard.axes import Axis, Grid
from regard.recording import Writer
from support.recordings import on_disk, write_sighted

AXIS = Axis((Grid(4, 5, prefix=1, names=("class",)),))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "seen.regard"
    with Writer(path) as writer:
        write_sighted(writer, AXIS)
    return path


def test_a_patch_is_shown_by_its_row_and_column(shell, file):
    status, out, _ = shell("show", file, "L0H0", "--patch", "1,2")
    assert status == 0
    assert "row 8 (1, 2)" in out
    assert "picture 0" in out
    assert "\x1b" not in out
    assert shell("show", file, "L0H0", "--row", "8")[1] == out
    assert shell("show", file, "L0H0", "--token", "(1, 2)")[1] == out


def test_who_looks_at_a_key(shell, file):
    _, by_number, _ = shell("show", file, "L0H0", "--key", "8")
    _, by_place, _ = shell("show", file, "L0H0", "--key", "1,2")
    assert by_number == by_place
    assert "key 8 (1, 2)" in by_number
    status, out, _ = shell("show", file, "L0H0", "--key", "-1", "--json")
    told = json.loads(out)
    assert (status, told["key"], told["token"], told["seen_by"]) == (0, 20, "(3, 4)", 21)
    assert told["top"][0]["weight"] >= told["top"][1]["weight"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["L0H0", "--patch", "9,9"], "there is no patch 9,9; L0H0 has class + 4 × 5 patches"),
        (["L0H0", "--patch", "x"], "'x' names no patch; give its row and column"),
        (["L0H0", "--patch", "1,1", "--row", "3"], "--row and --patch each name rows"),
        (["L0H0", "--key", "3", "--row", "3"], "--key is about one key and all rows"),
        (["L0H0", "--key", "99"], "key 99 does not exist; L0H0 has 0–20"),
        (["--patch", "1,1"], "--patch is about one head"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_a_line(shell, file, words, says):
    status, _, err = shell("show", file, *words)
    assert status == 2
    assert says in err
    assert err.count("\n") == 1


def test_a_text_has_no_patches(shell, tmp_path):
    status, _, err = shell("show", on_disk(tmp_path / "a.regard"), "L0H0", "--patch", "1,1")
    assert (status, "are no patches" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "name", "kind"),
    [
        (["L0H0", "--over-picture", "--row", "8"], "seen-L0H0-row8-over-picture.png", "picture"),
        (["L0H0", "--over-picture", "--key", "8"], "seen-L0H0-key8-over-picture.png", "picture"),
        (["--over-picture", "--row", "8", "--dark"], "seen-heads-row8-over-picture.png", "heads"),
    ],
)  # fmt: skip
def test_plots_over_the_picture(shell, file, words, name, kind):
    status, out, _ = shell("plot", file, *words, "--json")
    told = json.loads(out)
    assert (status, told["picture"], told["file"]) == (0, kind, str(file.parent / name))
    assert imread(told["file"]).shape[:2] == (told["height"], told["width"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--over-picture"], "give --row N"),
        (["L0H0", "--over-picture"], "give --row or --key, one of them"),
        (["L0H0", "--over-picture", "--row", "1", "--key", "1"], "one of them"),
        (["L0H0", "--key", "1"], "give --over-picture as well"),
        (["L0H0", "--over-picture", "--row", "1", "--max"], "--max is for a picture of a head"),
        (["--over-picture", "--row", "1", "--key", "1"], "--key is for a picture of a head over"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(shell, file, words, says):
    status, _, err = shell("plot", file, *words)
    assert status == 2
    assert says in err


def test_tables_have_coordinates(shell, file):
    assert shell("export", file, "--to", "csv", "--what", "weights", "--heads", "L0H0")[0] == 0
    with (file.parent / "seen.weights.csv").open() as lines:
        first, second, *_ = csv.DictReader(lines)
    assert [first[f"key_{name}"] for name in ("frame", "row", "column")] == ["-1"] * 3
    assert [second[f"key_{name}"] for name in ("frame", "row", "column")] == ["0"] * 3
    assert shell("export", file, "--to", "csv", "--what", "positions")[0] == 0
    with (file.parent / "seen.positions.csv").open() as lines:
        found = list(csv.DictReader(lines))
    assert len(found) == 2 * 2 * 21
    assert (found[8]["name"], found[8]["row"], found[8]["column"]) == ("(1, 2)", "1", "2")


def test_arrays_come_with_their_axes(shell, file):
    assert shell("export", file, "--to", "npz", "--what", "weights")[0] == 0
    with np.load(file.parent / "seen.npz") as arrays:
        axes = json.loads(str(arrays["about/P0/L0/axes"]))
        weights = arrays["P0/L0H0/weights"]
    axis = Axis.from_json(axes["key"])
    assert axis == AXIS
    assert axis.grids()[0][1].lay(weights[8]).shape == (1, 4, 5)
