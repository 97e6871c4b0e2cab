"""Colours: clamped at both ends, ever lighter, told apart without red and green."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.colour import shades as colours
from regard.draw import palette

# What is left of linear red, green and blue for eyes without one kind of cone (Viénot 1999).
WITHOUT_RED = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
WITHOUT_GREEN = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_share_has_a_colour_and_a_sign(share):
    code = int(colours.codes(share))
    assert palette.colour(code, "true").startswith("#")
    assert palette.ramp_sign(code) in palette.RAMP


@pytest.mark.parametrize("seen", [WITHOUT_RED, WITHOUT_GREEN], ids=["red", "green"])
def test_it_reads_without_one_kind_of_cone(seen):
    linear = (colours.palette() / 255) ** 2.2
    left = np.clip(linear @ seen.T, 0, 1) ** (1 / 2.2) * 255
    light = colours.lightness(left)
    assert np.diff(light[::16]).min() > 0.01
    assert light[-1] - light[0] > 0.7


def test_the_fixed_colours_are_real_and_never_darker():
    chosen = palette.xterm()
    assert chosen.min() >= 16 and len(set(chosen.tolist())) >= 12
    levels = np.array([0, 95, 135, 175, 215, 255])
    cube = [c for c in chosen.astype(int) if c < 232]
    rgb = [[levels[(c - 16) // 36], levels[(c - 16) // 6 % 6], levels[(c - 16) % 6]] for c in cube]
    assert np.diff(colours.lightness(rgb)).min() >= 0


def test_styles_name_the_colour():
    assert palette.colour(255, "true") == "#" + bytes(colours.palette()[255]).hex()
    assert palette.colour(0, "256") == f"color({palette.xterm()[0]})"


@pytest.mark.parametrize("colours", ["true", "256"])
def test_ink_is_light_on_dark_and_dark_on_light(colours):
    white, black = palette.ink(0, colours), palette.ink(255, colours)
    assert (white, black) in (("#ffffff", "#000000"), ("color(231)", "color(16)"))


def test_the_ramp_uses_every_sign_in_order():
    signs = [palette.ramp_sign(code) for code in range(256)]
    assert list(dict.fromkeys(signs)) == list(palette.RAMP)
    assert "." not in palette.RAMP and palette.RAMP.isascii()
