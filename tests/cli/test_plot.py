"""`regard plot`: every picture is written, named and described."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

SCALE = "one token a cell; × even share (at most 12 keys), log 0.1–12"


@pytest.fixture
def plot(shell, file):
    """The verb with run.regard: status, stdout, stderr."""
    return partial(shell, "plot", file)


@pytest.mark.parametrize(
    ("words", "name", "shape"),
    [
        ("L0H1", "run-L0H1.png", (1280, 1280)),
        ("L1H1", "run-L1H1.png", (1280, 1280)),
        ("L0H1 --row -1", "run-L0H1-row-1.png", (896, 1280)),
        ("", "run-off-sinks.png", (1024, 1280)),
        ("--grid previous", "run-previous.png", (1024, 1280)),
        ("--entropy", "run-entropy.png", (800, 1280)),
        ("L0H1 --prompt 1 --size 2.5x2.5", "run-P1-L0H1.png", (400, 400)),
    ],
)
def test_every_picture_lies_beside_the_recording(plot, tmp_path, words, name, shape):
    status, out, err = plot(*words.split())
    assert (status, err) == (0, "")
    assert out.startswith(f"written: {tmp_path / name} ({shape[1]}×{shape[0]} pixels; ")
    assert imread(tmp_path / name).shape[:2] == shape
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run.regard", name])


def test_it_says_scale_and_pooling(plot):
    small = ("--size", "2.5x2.5", "--dpi", 30, "-o", "a.svg", "--overwrite")
    assert plot("L0H1", *small)[1].endswith(f"pixels; {SCALE})\n")
    assert "weight, linear 0–" in plot("L0H1", "--raw", *small)[1]
    out = plot("L0H1", "--cell", 4, "--max", *small)[1]
    assert "max of 4×4 tokens a cell; × even share" in out
    for name in ("previous", "on the token before", "On-the-token-before"):
        assert "on the token before: mass on the token before" in plot("--grid", name, *small)[1]


def test_a_grid_with_holes_says_why(plot, monkeypatch):
    why = "for want of keys"
    unknown = {"non_sink": why}
    monkeypatch.setattr("regard.views.text.why_unknown", lambda _, name: unknown.get(name, ""))
    assert plot("-o", "a.svg")[2] == f"{why}\n"
    assert plot("--grid", "previous", "-o", "b.svg")[2] == plot("L0H1", "-o", "c.svg")[2] == ""


def test_size_dpi_and_dark_and_svg_by_its_name(plot, tmp_path):
    assert plot("L0H1", "-o", "a.png", "--size", "3.3x3", "--dpi", 100, "--dark")[0] == 0
    pixels = imread(tmp_path / "a.png")
    assert pixels.shape[:2] == (300, 330)
    assert (255 * pixels[0, 0, :3]).round().tolist() == [0x15, 0x16, 0x1A]
    assert plot("L0H1", "-o", "figure.svg")[0] == 0
    assert ElementTree.parse(tmp_path / "figure.svg").getroot().get("viewBox") == "0 0 576 576"


def test_json(plot, tmp_path):
    status, out, err = plot("L0H1", "--row", 3, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "file": str(tmp_path / "run-L0H1-row3.png"), "picture": "row", "prompt": 0, "head": "L0H1",
        "row": 3, "key": None, "statistic": None, "width": 1280, "height": 896,
        "says": ["row 3 sees 4 keys; weight, linear"],
    }  # fmt: skip
    assert json.loads(plot("--json")[1])["statistic"] == "non_sink"


def test_stacks(shell, refused, stacks, tmp_path):
    asked = "stacks cross, encoder; give one with --stack"
    assert asked in refused("plot", stacks, "--grid", "peak")
    assert shell("plot", stacks, "--grid", "peak", "--stack", "cross")[0] == 0
    assert shell("plot", stacks, "cross.L0H1")[0] == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"stacks.regard", "stacks-cross-peak.png", "stacks-cross.L0H1.png"}


@pytest.mark.parametrize(
    ("words", "name", "kind"),
    [
        ("L0H0 --over-picture --row 8", "seen-L0H0-row8-over-picture.png", "picture"),
        ("L0H0 --over-picture --key 8", "seen-L0H0-key8-over-picture.png", "picture"),
        ("--over-picture --row 8 --dark", "seen-heads-row8-over-picture.png", "heads"),
    ],
)
def test_over_the_picture(shell, seen, tmp_path, words, name, kind):
    status, out, _ = shell("plot", seen, *words.split(), "--json")
    told = json.loads(out)
    assert (status, told["picture"], told["file"]) == (0, kind, str(tmp_path / name))
    assert imread(told["file"]).shape[:2] == (told["height"], told["width"])


def test_a_picture_that_fails_half_way_leaves_nothing(refused, file, monkeypatch):
    from matplotlib.figure import Figure

    def broken(self, path, **_):
        path.write_bytes(b"half")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Figure, "savefig", broken)
    line = refused("plot", file, "L0H1", status=3)
    assert "cannot be written (No space left on device)" in line


def test_without_matplotlib_the_extra_is_named(refused, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = refused("plot", file, "L0H1")
    assert "needs the package 'matplotlib'" in line
    assert line.endswith("pip install 'regard[plot]'")
