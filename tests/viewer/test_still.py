"""The picture that is left where no script runs."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.image import imread

from regard.colour import TIMES_UNIFORM, palette, times_uniform_of
from regard.viewer import still
from regard.viewer.opened import Opened
from regard.viewer.still import picture_of, png_of
from support.recordings import in_memory

WORDS = [f"w{n % 9}" for n in range(48)]


def pixels(png: bytes) -> np.ndarray:
    return np.rint(imread(io.BytesIO(png)) * 255).astype(int)


@pytest.fixture
def opened():
    return Opened(in_memory(WORDS, layers=2, exact=(0, 1))[0])


def test_codes_have_the_palettes_colours_and_hidden_ones_none():
    found = pixels(png_of(np.array([[0, 1], [128, 255]], np.uint8), TIMES_UNIFORM))
    assert found[0, 0, 3] == 0
    for at, code in (((0, 1), 1), ((1, 0), 128), ((1, 1), 255)):
        shade = palette()[round((code - 1) / 254 * 255)]
        assert found[at].tolist() == [*shade.tolist(), 255]


def test_few_keys_have_all_colours():
    most = round(np.log(8 / 0.1) / np.log(1000) * 254) + 1  # the code of × 8
    found = pixels(png_of(np.array([[most]], np.uint8), times_uniform_of(8)))
    assert found[0, 0, :3] == pytest.approx(palette()[-1].astype(int), abs=3)


def test_a_heads_picture_is_its_map_enlarged(opened):
    codes = opened.head_map(0, "L0H1").tile(1, 0, 0).codes[:48, :48]
    found = pixels(picture_of(opened, 0, "L0H1"))
    times = found.shape[0] // 48
    assert found.shape[:2] == (48 * times, 48 * times) and times == 8
    assert ((found[::times, ::times, 3] > 0) == (codes > 0)).all()


def test_all_heads_stand_in_one_picture_a_row_a_layer(opened):
    found = pixels(picture_of(opened))
    layers, heads = opened.recording.stacks[""]
    tall, wide = found.shape[0] // layers, found.shape[1] // heads
    for layer, head in np.ndindex(layers, heads):
        own = found[layer * tall : (layer + 1) * tall, head * wide : (head + 1) * wide, 3]
        assert own[:2, :2].all() and not own[2, tall // 2 :].any()  # causal


def test_what_takes_long_is_not_computed_for_a_picture(opened, monkeypatch):
    monkeypatch.setattr(still, "_MOST_CELLS", 48)
    assert picture_of(opened, 0, "L0H1") is None
