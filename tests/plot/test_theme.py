"""Surroundings that can be told from the colours, and words that can be read."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import palette
from regard.plot.sheet import DARK, LIGHT, Theme

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def rgb(colour: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8).astype(float)


def contrast(a: str, b: str) -> float:
    """As WCAG counts it, 1 … 21."""

    def luminance(colour: str) -> float:
        share = rgb(colour) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@THEMES
def test_words_can_be_read(theme: Theme):
    assert contrast(theme.ink, theme.paper) > 10
    assert contrast(theme.dim, theme.paper) > 4.5
    for line in theme.lines:
        assert contrast(line, theme.paper) > 2.7


@THEMES
def test_what_is_hidden_is_no_colour_of_the_scale(theme: Theme):
    """It is grey, and every colour of the palette lies clearly away from it."""
    hidden = rgb(theme.hidden)
    assert np.ptp(hidden) < 12
    assert np.abs(palette() - hidden).max(axis=1).min() > 30
    assert contrast(theme.hidden, theme.paper) > 1.25
