"""A head's map at several scales, from one sweep over its cells."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.recording import Head
from regard.recording.layer import areas
from regard.recording.visibility import Sight
from regard.views.pixels import TILE
from regard.views.tiles import HeadMap
from regard.views.uniform import codes_of, even_sums

_Array: TypeAlias = NDArray[Any]
_FEWEST: Final = 16  # pixels a side
MOST_SWEPT: Final = 2**26  # cells of one head that are computed for a page: a second or two


class Level(NamedTuple):
    """Codes as those of a tile, of all tokens."""

    tokens: int  # a pixel
    mean: NDArray[np.uint8]
    max: NDArray[np.uint8] | None


def doubled(first: int, shape: tuple[int, int]) -> list[int]:
    """Tokens a pixel: first, twice that …, until all fits into one tile."""
    levels = [first]
    while levels[-1] * TILE < max(shape):
        levels.append(2 * levels[-1])
    return levels


def pyramid_of(head: Head, sight: Sight, head_map: HeadMap, first: int) -> list[Level]:
    """From `first` tokens a pixel (a power of two) down to a few pixels; from more tokens on where
    finer cells are neither stored nor few enough to be computed. Empty where there is no map."""
    own = head.place.pool_cell if head.has("pooled") else 0
    is_fine = own > 0 and first % own == 0  # what is stored is enough
    is_swept = head.exact and not is_fine and len(head.recorded) * head.shape[1] <= MOST_SWEPT
    if not (is_swept or own):
        return []
    base = min(first, doubled(1, head.shape)[-1]) if is_swept else own
    kept = None if is_swept else sight.held.pooled_sums(sight.held.slot(head.head))
    if kept is None:
        kept = np.asarray(head.pooled(base), np.float64) * areas(head.shape, base)
    sums = np.asarray(kept, np.float64)
    even = even_sums(sight, base)
    largest = _largest(head_map, base) if is_swept else None
    found, level = [_level(base, sums, even, largest)], base
    while max(even.shape) > _FEWEST:
        sums, even = (_halved(np.add, one) for one in (sums, even))
        # codes rise with what they stand for, and 0 is hidden: the largest code is the largest's
        largest = None if largest is None else _halved(np.maximum, largest)
        level *= 2
        found.append(_level(level, sums, even, largest))
    return [one for one in found if one.tokens >= first]


def _level(tokens: int, sums: _Array, even: _Array, largest: NDArray[np.uint8] | None) -> Level:
    return Level(tokens, codes_of(sums, even).codes, largest)


def _halved(reduce: np.ufunc, cells: _Array) -> _Array:
    down, across = (np.arange(0, n, 2) for n in cells.shape)
    return reduce.reduceat(reduce.reduceat(cells, down, axis=0), across, axis=1)


def _largest(head_map: HeadMap, level: int) -> NDArray[np.uint8]:
    """The whole map of maxima, out of tiles."""
    size = head_map.size(level)
    down, across = (-(-n // TILE) for n in size)
    rows = [
        np.concatenate([_tile(head_map, level, y, x) for x in range(across)], axis=1)
        for y in range(down)
    ]
    return np.concatenate(rows)[: size[0], : size[1]]


def _tile(head_map: HeadMap, level: int, y: int, x: int) -> NDArray[np.uint8]:
    return head_map.tile(level, y, x, "max").codes
