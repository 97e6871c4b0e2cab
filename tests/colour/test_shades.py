"""Colours: clamped at both ends, named, with ink that reads on them."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import codes, hexadecimal, is_light, lightness, palette


@pytest.mark.parametrize(
    ("share", "code"), [(0.0, 0), (1.0, 255), (-3.0, 0), (7.0, 255), (np.inf, 255), (np.nan, 0)]
)
def test_lookups_clamp(share: float, code: int) -> None:
    assert codes(share) == code


def test_names() -> None:
    red, green, blue = palette()[77]
    assert hexadecimal(77) == f"#{red:02x}{green:02x}{blue:02x}"


def test_light_colours_take_black_ink() -> None:
    assert not is_light(0) and is_light(255)
    switch = [n for n in range(255) if is_light(n) != is_light(n + 1)]
    assert len(switch) == 1  # dark ones first, then light ones
    light = lightness(palette())
    assert light[0] < 0.25 and light[-1] > 0.9
