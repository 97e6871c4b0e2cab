"""Heads as a page carries them: all their weights, exact or rounded, or else a map and some rows.

    exact     every weight that may be seen, all digits
    rounded   the same to a step of 2⁻ᵏ, the finest that fits
    pooled    a map from some tokens a pixel on, and some rows, all digits

What fits is tried in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.recording import Head
from regard.recording.visibility import Sight
from regard.viewer.carried_tracks import pack_tracks
from regard.viewer.packing import Packed
from regard.views.pixels import TILE
from regard.views.profiles import Track, tracks_of
from regard.views.pyramid import Level, doubled, pyramid_of
from regard.views.sightlines import Sightlines, sightlines_of
from regard.views.tiles import HeadMap

_Made: TypeAlias = tuple["Source", list[Level], Sightlines | None]
Form: TypeAlias = Literal["exact", "rounded", "pooled"]
_Array: TypeAlias = NDArray[Any]

_FINEST, _COARSEST = 20, 9  # bits of a rounding step
_EXACT_BYTES: Final = 2.5  # a float32 weight takes at least, deflated
_LEAST_BYTES: Final = 0.15  # the coarsest rounding takes at least
_PIXEL_BYTES: Final = 0.2  # a pixel of a map with its coarser ones takes at least
_SAMPLE: Final = 12  # heads by which a step is tried
_MOST_ROWS: Final = 16
_FEWEST_POINTS: Final = 64  # of a curve


@dataclass(frozen=True)
class Source:
    """A head that is to be carried."""

    head: Head
    sight: Sight
    make_map: Callable[[], HeadMap]
    evidence: Sequence[int]  # rows that findings name, best first

    @cached_property
    def cells(self) -> int:
        """How many weights may be seen."""
        return int(self.sight.visible().sum())

    @cached_property
    def lines(self) -> Sightlines:
        """What all recorded rows see."""
        return sightlines_of(self.sight, np.array(self.head.recorded))

    @cached_property
    def weights(self) -> _Array:
        """Row by row, those that may be seen."""
        return self.lines.chosen(self.head.dense(), 0, self.lines.rows.size)

    @cached_property
    def tracks(self) -> dict[str, Track | None]:
        """Beside the map."""
        return tracks_of(self.head)

    def first_level(self, share: float) -> int:
        """Tokens a pixel of the finest map that may fit into so many bytes."""
        level, (queries, keys) = 1, self.head.shape
        while queries * keys / level**2 * _PIXEL_BYTES > share and level < max(queries, keys):
            level *= 2
        return level

    def pyramid(self, first: int) -> list[Level]:
        """Its map."""
        return pyramid_of(self.head, self.sight, self.make_map(), first)


@dataclass(frozen=True)
class Carrying:
    """One head, packed."""

    source: Source
    packed: Packed
    content: bytes
    lines: Sightlines | None  # of the rows whose weights are here
    tracks: dict[str, dict[str, Any] | None]
    levels: dict[str, list[int]]


def fits_whole(sources: Iterable[Source], room: int) -> bool:
    """Whether all weights of all heads may fit, rounded if need be."""
    every = list(sources)
    known = all(one.head.exact and one.sight.is_complete for one in every)
    return known and sum(one.cells for one in every) * _LEAST_BYTES <= room


def carry(sources: Sequence[Source], room: int) -> tuple[Form, float, list[Carrying]]:
    """The form, the step weights are rounded to (0 for none), and the heads in `room` bytes."""
    if fits_whole(sources, room):
        if sum(one.cells for one in sources) * _EXACT_BYTES <= room:
            exact = [_whole(one, 0.0) for one in sources]
            if _size(exact) <= room:
                return "exact", 0.0, exact
        for bits in range(min(_most_bits(sources, room) + 1, _FINEST), _COARSEST - 1, -1):
            rounded = [_whole(one, 2.0**-bits) for one in sources]
            if _size(rounded) <= room:
                return "rounded", 2.0**-bits, rounded
    return "pooled", 0.0, _pooled(sources, room)


def _size(carried: Iterable[Carrying]) -> int:
    return sum(len(one.content) for one in carried)


# ── all weights ──────────────────────────────────────────────────────────────────────────────


def _most_bits(sources: Sequence[Source], room: int) -> int:
    """Of the finest step that fits, as far as some of the heads tell."""
    sample = sources[:: -(-len(sources) // _SAMPLE)]
    share = room * len(sample) / len(sources)
    fits, too_fine = _COARSEST - 1, _FINEST + 1
    while too_fine - fits > 1:
        bits = (fits + too_fine) // 2
        if _size(_whole(one, 2.0**-bits) for one in sample) <= share:
            fits = bits
        else:
            too_fine = bits
    return fits


def _whole(source: Source, step: float) -> Carrying:
    packed = Packed()
    if step:
        packed.rounded("weights", source.weights, step)
    else:
        packed.exact("weights", source.weights)
    tracks = pack_tracks(packed, source.tracks, exact=not step)
    levels = doubled(1, source.head.shape)
    both = {"mean": levels, "max": levels}
    return Carrying(source, packed, packed.content(), source.lines, tracks, both)


# ── a map and some rows ──────────────────────────────────────────────────────────────────────


def _pooled(sources: Sequence[Source], room: int) -> list[Carrying]:
    """As fine as fits, the same number of tokens a pixel for all."""
    first = max(one.first_level(room / len(sources)) for one in sources)
    share = room // (4 * len(sources))  # for rows, and again for curves
    made = [(one, one.pyramid(first), _rows(one, share)) for one in sources]
    steps = max(len(levels) for _, levels, _ in made)
    for n in range(max(steps, 1)):
        found = [_mapped(*one, first << n, share) for one in made]
        spare = room - _size(found)
        if spare >= 0:
            return _with_rows(found, made, first << n, share, spare)
    raise InputError(
        f"{len(sources)} heads do not fit into a page of this size, not even as small pictures; "
        "choose fewer heads, or allow more bytes"
    )


def _with_rows(
    found: list[Carrying], made: Sequence[_Made], first: int, share: int, spare: int
) -> list[Carrying]:
    """More rows where there is room for them."""
    most = share + spare // len(made)
    more = [_mapped(one, levels, _rows(one, most), first, share) for one, levels, _ in made]
    return more if _size(more) - _size(found) <= spare else found


def _rows(source: Source, most: int) -> Sightlines | None:
    """Rows that take at most so many bytes: those that findings name, the last, some between."""
    head = source.head
    if not (head.exact and source.sight.is_complete):
        return None
    count = min(most // (4 * head.shape[1]), _MOST_ROWS)
    here = head.recorded
    spread = here[:: -(-len(here) // _MOST_ROWS)] if here else here
    named = [*(row for row in source.evidence if row in here), *here[-1:], *spread]
    chosen = sorted(list(dict.fromkeys(named))[:count])
    return sightlines_of(source.sight, np.array(chosen, np.int64))


def _mapped(
    source: Source, levels: Sequence[Level], lines: Sightlines | None, first: int, share: int
) -> Carrying:
    """From `first` tokens a pixel on, until all fits into one tile."""
    packed = Packed()
    kept = [one for one in levels if one.tokens >= first]
    finer = [TILE + 1, *(max(one.mean.shape) for one in kept)]  # pixels of the level before
    if lines is not None and lines.rows.size:
        packed.exact("weights", lines.chosen(source.head.rows(lines.rows), 0, lines.rows.size))
    tokens: dict[str, list[int]] = {"mean": [], "max": []}
    for one in (level for level, before in zip(kept, finer, strict=False) if before > TILE):
        for how, codes in (("mean", one.mean), ("max", one.max)):
            if codes is not None:
                packed.codes(f"{how}/{one.tokens}", codes)
                tokens[how].append(one.tokens)
    points = max(share // 16, _FEWEST_POINTS)
    curves = {name: one and one.coarser(points) for name, one in source.tracks.items()}
    tracks = pack_tracks(packed, curves, exact=False)
    return Carrying(source, packed, packed.content(), lines, tracks, tokens)
