"""The palette: read in grey, read without red and green, and ink that can be read on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.colour import codes, hexadecimal, is_light, lightness, palette
from regard.colour.shades import oklab

SHARES = st.floats(allow_nan=False, allow_infinity=True, width=64)


def luminance(rgb: np.ndarray) -> np.ndarray:
    """Relative luminance as WCAG 2 defines it."""
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """1 … 21."""
    a, b = luminance(one), luminance(other)
    return (np.maximum(a, b) + 0.05) / (np.minimum(a, b) + 0.05)


# ── along the palette ────────────────────────────────────────────────────────────────────────


def test_lightness_rises_evenly() -> None:
    """Equal steps of a share look equally far apart."""
    steps = np.diff(lightness(palette()))
    assert palette().shape == (256, 3) and palette().dtype == np.uint8
    assert (steps > 0).all()
    assert np.abs(steps - steps.mean()).max() < 1.2 * steps.mean()  # rounded to 256 levels
    tens = lightness(palette())[::15]
    assert np.abs(np.diff(tens) - np.diff(tens).mean()).max() < 0.1 * np.diff(tens).mean()


def test_a_grey_printer_keeps_the_order() -> None:
    assert (np.diff(luminance(palette().astype(float))) > 0).all()


def test_blue_gives_way_to_yellow() -> None:
    """The axis that eyes without red or green see as well."""
    _, _, yellow = oklab(palette()).T
    bluest = int(np.argmin(yellow))
    assert bluest < 64 and yellow[bluest] < -0.1 and yellow[-1] > 0.1  # violet is short
    assert (np.diff(yellow[bluest:][::8]) > 0).all()


def test_every_code_has_a_name_that_reads_back() -> None:
    for code in range(256):
        name = hexadecimal(code)
        assert len(name) == 7 and name[0] == "#"
        assert [int(name[at : at + 2], 16) for at in (1, 3, 5)] == palette()[code].tolist()


# ── ink ──────────────────────────────────────────────────────────────────────────────────────


def test_ink_is_the_one_with_more_contrast_and_enough() -> None:
    black, white = np.zeros(3), np.full(3, 255.0)
    for code, rgb in enumerate(palette().astype(float)):
        ink, other = (black, white) if is_light(code) else (white, black)
        assert contrast(rgb, ink) >= contrast(rgb, other) - 0.01
        assert contrast(rgb, ink) > 4.5  # as WCAG asks of small text


# ── lookups ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("share", "code"), [(0.0, 0), (1.0, 255), (-3.0, 0), (7.0, 255), (np.inf, 255), (np.nan, 0)]
)
def test_lookups_clamp(share: float, code: int) -> None:
    assert codes(share) == code


@given(SHARES, SHARES)
def test_more_is_never_darker(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert codes(low) <= codes(high)
    assert lightness(palette()[codes(low)]) <= lightness(palette()[codes(high)])


@given(
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0),
        elements=st.floats(allow_nan=True, allow_infinity=True, width=16),
    )
)
def test_any_array_has_colours_of_its_shape(shares: np.ndarray) -> None:
    found = codes(shares)
    assert found.shape == shares.shape and found.dtype == np.uint8
    assert (found[np.isnan(shares)] == 0).all()
    assert palette()[found].shape == (*shares.shape, 3)


@given(st.integers(0, 255))
def test_a_code_is_its_own_share(code: int) -> None:
    assert codes(code / 255) == code


def test_black_and_white_are_the_ends_of_lightness() -> None:
    ends = lightness(np.array([[0, 0, 0], [255, 255, 255], [128, 128, 128]]))
    assert ends == pytest.approx([0, 1, 0.6], abs=0.01)
    grey = oklab(np.array([[200, 200, 200]]))[0]
    assert np.abs(grey[1:]).max() < 1e-3  # grey has no colour
