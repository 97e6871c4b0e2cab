"""Heat over a picture: where it is faint the picture shows, darker than it is; where it is strong,
the palette does."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.colour.shades import codes, palette

_FAINT, _STRONG = 0.2, 0.85  # how much of the palette is seen at the ends of a scale
_DARKENED: Final = 0.7  # of the picture's light below heat
_HIDDEN: Final = 0.35  # … where no heat is known


def blended(pixels: NDArray[np.uint8], shares: NDArray[Any]) -> NDArray[np.uint8]:
    """(…, 3): pixels (…, 3) below shares (…) of a scale, (1 − a)·pixel + a·palette(share) with
    a = 0.2 + 0.65·share; NaN: the pixel alone, dark."""
    known = ~np.isnan(shares)[..., None]
    share = np.nan_to_num(np.clip(shares, 0, 1))[..., None]
    alpha = np.where(known, _FAINT + (_STRONG - _FAINT) * share, 0.0)
    light = np.where(known, _DARKENED, _HIDDEN)
    found = (1 - alpha) * light * pixels + alpha * palette()[codes(share[..., 0])]
    return np.rint(found).astype(np.uint8)


def resized(pixels: NDArray[np.uint8], high: int, wide: int) -> NDArray[np.uint8]:
    """(high, wide, 3): the mean colour of each part of a picture, or its pixels repeated."""
    rows, columns = (_edges(n, into) for n, into in zip(pixels.shape, (high, wide), strict=False))
    summed = np.zeros((pixels.shape[0] + 1, pixels.shape[1] + 1, 3))
    summed[1:, 1:] = pixels.cumsum(0, dtype=np.float64).cumsum(1)
    (top, bottom), (left, right) = rows, columns
    total = (
        summed[bottom][:, right] - summed[top][:, right] - summed[bottom][:, left]
        + summed[top][:, left]
    )  # fmt: skip
    area = np.outer(bottom - top, right - left)[..., None]
    return np.rint(total / area).astype(np.uint8)


def _edges(size: int, into: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First pixel of each of so many parts, and the one behind its last; at least one each."""
    first = np.arange(into) * size // into
    return first, np.maximum((np.arange(into) + 1) * size // into, first + 1)
