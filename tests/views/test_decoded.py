"""A recording's picture as colours, or one sentence why not."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from regard.axes import Axis, Grid
from regard.recording import Memory, Recording
from regard.views.decoded import decoded
from support.recordings import png, scene, write_sighted

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
