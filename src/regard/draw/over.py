"""Numbers over pictures: patches as half blocks, on the picture itself where a terminal has its
colours, else the heat alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from regard.colour.over import blended, resized
from regard.draw.heat import Axis, gutter, heat_map, largest_side, merged, ticks, widest_side
from regard.draw.paper import Paper, StyledLine

_ZOOMS: Final = (8, 4, 2, 1)  # characters a patch, so that ticks stand where one begins


@dataclass(frozen=True)
class Patches:
    """One frame of a grid over its picture."""

    shares: NDArray[np.float64]  # (rows, columns): NaN where nothing is known
    pixels: NDArray[np.uint8] | None = None  # (height, width, 3)


def patch_lines(patches: Patches, paper: Paper) -> list[StyledLine]:
    """The frame, with rows and columns of patches along it; several patches a square where the
    paper is too small for all."""
    step = pooling_step(patches.shares.shape, paper)
    shares = _pooled(patches.shares, step)
    if patches.pixels is None or paper.colours != "true":
        return heat_map(shares, Axis(0, step), Axis(0, step), paper)
    return _over(shares, patches.pixels, step, paper)


def pooling_step(shape: tuple[int, ...], paper: Paper) -> int:
    """Patches a side that stand in one square."""
    side = max(largest_side(paper), 8)
    return max(-(-shape[0] // side), -(-shape[1] // widest_side(paper)), 1)


def _pooled(shares: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """The largest of each square of step × step; NaN where none is known."""
    if step == 1:
        return shares
    starts = [np.arange(0, n, step) for n in shares.shape]
    once: NDArray[np.float64] = np.fmax.reduceat(shares, starts[0], axis=0)
    return np.asarray(np.fmax.reduceat(once, starts[1], axis=1))


def _over(
    shares: NDArray[np.float64], pixels: NDArray[np.uint8], step: int, paper: Paper
) -> list[StyledLine]:
    """Two rows of squares a line: ▀ has the upper's colour before the lower's."""
    room = largest_side(paper) // shares.shape[0], widest_side(paper) // shares.shape[1]
    zoom = next((one for one in _ZOOMS if one <= min(room)), 1)
    large = shares.repeat(zoom, axis=0).repeat(zoom, axis=1)
    colours = blended(resized(pixels, *large.shape), large)
    rows, keys = Axis(0, step, zoom=zoom), Axis(0, step, zoom=zoom)
    starts = gutter(rows, len(large), step=2)
    lines: list[StyledLine] = []
    for n, start in enumerate(starts):
        upper, lower = colours[2 * n], colours[2 * n + 1] if 2 * n + 1 < len(colours) else None
        pieces = [
            ("▀", _hex(a) if b is None else f"{_hex(a)} on {_hex(b)}")
            for a, b in zip(upper, [None] * len(upper) if lower is None else lower, strict=True)
        ]
        lines.append([(start, "dim"), *merged(pieces)])
    return [*lines, *ticks(keys, large.shape[1], 1, starts[0], paper)]


def _hex(colour: NDArray[np.uint8]) -> str:
    red, green, blue = colour.tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"
