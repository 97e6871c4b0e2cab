"""What stands along an axis: the tokens where there is room for them, else round positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from regard.colour.scale import steps
from regard.plot.lettering import cut, visible
from regard.plot.sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELLED: Final = 40  # tokens an axis, up to which each has its text
_SMALLEST: Final = 5.0  # points
_PITCH: Final = 1.25  # of a text's size, so that neighbours do not touch
_LONGEST: Final = 1.15  # inches of one token
_EVERY: Final = 0.4  # inches between positions


class Ticks(NamedTuple):
    """Texts at places along an axis, in points of one size."""

    places: Sequence[float]
    texts: Sequence[str]
    size: float


def tick_tokens(tokens: Sequence[str], start: int, length: float, sheet: Sheet) -> Ticks:
    """Each token at the middle of its cell; every nth where they would be too small to read."""
    longest = 72 * min(_LONGEST, min(sheet.size) / 6)
    names = [visible(token) for token in tokens]
    ticks = tick_names(names, start, length, sheet)
    return ticks._replace(texts=[cut(text, longest, ticks.size) for text in ticks.texts])


def tick_names(names: Sequence[str], start: int, length: float, sheet: Sheet) -> Ticks:
    """The names of consecutive cells, as many as are legible."""
    pitch = 72 * length / max(len(names), 1)
    size = min(max(pitch / _PITCH, _SMALLEST), sheet.base - 1)
    step = max(math.ceil(_PITCH * size / pitch - 1e-9), 1)
    places = [start + n + 0.5 for n in range(0, len(names), step)]
    return Ticks(places, names[::step], size)


def tick_positions(start: int, stop: int, length: float, sheet: Sheet) -> Ticks:
    """Round numbers of tokens."""
    most = max(int(length / _EVERY), 3)
    places = [n for n in steps(start, max(stop - 1, start), most) if n == round(n)] or [start]
    return Ticks([n + 0.5 for n in places], [f"{n:.0f}" for n in places], sheet.base - 1)


def place_ticks(axes: Axes, *, below: Ticks, left: Ticks, turned: bool) -> None:
    """Put them on; turned: those below read upwards."""
    axes.set_xticks(below.places, below.texts, fontsize=below.size)
    axes.set_yticks(left.places, left.texts, fontsize=left.size)
    if turned:
        axes.tick_params(axis="x", labelrotation=90)
