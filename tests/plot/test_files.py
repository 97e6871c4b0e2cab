"""Files: PNG and SVG that parse, the same bytes every time, and what they say in words."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import warm
from plot.pictures import read
from regard.errors import InputError
from regard.plot import CAVEAT, FORMATS, format_of, write_picture
from support.recordings import WORDS, in_memory

MEANING = "one token a cell; × even share (at most 12 keys), log 0.1–12"
AGAIN = """
import sys
from pathlib import Path
from support.recordings import in_memory
from regard.plot import write_picture
for path in map(Path, sys.argv[1:]):
    write_picture(in_memory()[0].plot_head("L0H1"), path, path.suffix[1:])
"""


@pytest.fixture(scope="module")
def rec():
    return in_memory()[0]


def pictures(rec, **style):
    """One of each."""
    return {
        "head": rec.plot_head("L0H1", **style),
        "row": rec.plot_row("L0H1", -1, **style),
        "grid": rec.plot_grid("sink", **style),
        "entropy": rec.plot_entropy(**style),
    }


def test_the_usual_size_is_1280_pixels_wide(rec):
    for figure in pictures(rec).values():
        assert figure.get_figwidth() * figure.dpi == 1280


@pytest.mark.parametrize("kind", ["head", "row", "grid", "entropy"])
def test_pngs_have_the_size_that_was_asked_for(rec, tmp_path, kind):
    path = tmp_path / "picture.png"
    write_picture(pictures(rec, size=(5.0, 4.0), dpi=100)[kind], path, "png")
    assert read(path).shape == (400, 500, 4)


@pytest.mark.parametrize("kind", ["head", "row", "grid", "entropy"])
def test_svgs_parse_and_need_nothing_else(rec, tmp_path, kind):
    path = tmp_path / "picture.svg"
    write_picture(pictures(rec, size=(5.0, 4.0))[kind], path, "svg")
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg") and root.get("viewBox") == "0 0 360 288"
    text = path.read_text()
    assert "<text" not in text  # letters are outlines: no font is needed
    links = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
    assert all(link.startswith(("#", "data:")) for link in links)


def test_an_svg_holds_the_cells_themselves(rec, tmp_path):
    """One pixel a cell, not an enlarged copy."""
    import base64
    import io

    from matplotlib.image import imread

    path = tmp_path / "picture.svg"
    figure = rec.plot_head("L0H1")
    write_picture(figure, path, "svg")
    images = [e for e in ElementTree.parse(path).iter() if e.tag.endswith("image")]
    data = next(v for k, v in images[0].attrib.items() if k.endswith("href"))
    pixels = imread(io.BytesIO(base64.b64decode(data.split(",", 1)[1])))
    wanted = np.asarray(figure.axes[0].get_images()[0].get_array())
    found = (255 * pixels[..., :3]).round().astype(np.uint8)
    assert found.shape == wanted.shape
    assert (found == wanted).all() or (found[::-1] == wanted).all()


def test_the_same_picture_has_the_same_bytes_in_another_process_too(rec, tmp_path):
    names = [str(tmp_path / f"again.{kind}") for kind in FORMATS]
    done = warm.run(AGAIN, *names)
    assert done.returncode == 0, done.stderr
    for kind in FORMATS:
        picture = tmp_path / f"a.{kind}"
        write_picture(rec.plot_head("L0H1"), picture, kind)
        assert picture.read_bytes() == (tmp_path / f"again.{kind}").read_bytes()


def test_settings_of_the_user_change_nothing(rec, tmp_path):
    import matplotlib

    write_picture(rec.plot_head("L0H1"), tmp_path / "a", "png")
    theirs = {"font.size": 30, "axes.linewidth": 9, "savefig.dpi": 33, "savefig.bbox": "tight"}
    with matplotlib.rc_context(theirs):
        write_picture(rec.plot_head("L0H1"), tmp_path / "b", "png")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_it_means_is_in_a_png(rec, tmp_path):
    from PIL import Image

    write_picture(rec.plot_head("L0H1"), tmp_path / "a", "png")
    with Image.open(tmp_path / "a") as picture:
        said = picture.text
    assert said == {"Title": "tiny · L0H1", "Description": f"{MEANING}\n{CAVEAT}"}


def test_what_it_means_is_in_an_svg(rec, tmp_path):
    write_picture(rec.plot_head("L0H1"), tmp_path / "a", "svg")
    said = {e.tag.rpartition("}")[2]: e.text for e in ElementTree.parse(tmp_path / "a").iter()}
    assert said["title"] == "tiny · L0H1" and said["description"] == f"{MEANING}\n{CAVEAT}"
    assert "date" not in said and "Matplotlib" not in (tmp_path / "a").read_text()


def test_pixels_of_a_cell_are_the_palettes(rec, tmp_path):
    """From the weight to the file: the first token sees itself alone, which is 1 × even share."""
    from regard.colour.scale import times_uniform_of
    from regard.colour.shades import codes, palette

    figure = rec.plot_head("L0H1")
    write_picture(figure, tmp_path / "a.png", "png")
    box = figure.axes[0].get_window_extent()
    pixels = read(tmp_path / "a.png")
    side = (box.x1 - box.x0) / len(WORDS)
    x, y = int(box.x0 + side / 2), int(pixels.shape[0] - box.y1 + side / 2)
    wanted = palette()[codes(times_uniform_of(12).shares(1.0))]
    assert (255 * pixels[y, x, :3]).round().tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "png"), ("a.SVG", "svg"), ("run.b.c.svg", "svg")]
)
def test_the_name_says_the_format(name, kind):
    assert format_of(Path(name)) == kind


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.png.gz", ".png"])
def test_other_names_are_refused(name):
    with pytest.raises(InputError, match=r"is not the name of a picture; give .*png or .*svg"):
        format_of(Path(name))
