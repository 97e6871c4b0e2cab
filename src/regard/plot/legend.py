"""The colour bar: what the colours of a picture mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from regard.colour.scale import Scale
from regard.colour.shades import palette
from regard.plot.lettering import first_fitting
from regard.plot.sheet import Box, Sheet

_WIDE: Final = 0.15  # inches
_GAP: Final = 0.16  # from the picture to the bar
_TO_TEXT: Final = 0.08
_PITCH: Final = 1.6  # of a text's size, so that ticks do not touch
_HIDDEN_ROOM: Final = 0.34  # below the bar


def bar_width(sheet: Sheet, scale: Scale, hidden: str) -> float:
    """The inches that the bar and its words take, the gap before it included."""
    beside = _ticks_width(sheet, scale) + _TO_TEXT + sheet.base * 1.3 / 72
    return _GAP + _WIDE + _TO_TEXT + max(beside, sheet.widest([hidden], sheet.base - 1))


def draw_bar(sheet: Sheet, scale: Scale, beside: Box, words: Sequence[str], hidden: str) -> None:
    """A bar at the right of the picture, named in the first words that fit; `hidden` names the
    colour of cells without a value, if there are any."""
    low = _HIDDEN_ROOM if hidden else 0.0
    left = beside.left + beside.width + _GAP
    box = Box(left, beside.bottom + low, _WIDE, max(beside.height - low, 0.2))
    axes = sheet.axes(box)
    axes.imshow(
        palette()[:, None], extent=(0, 1, 0, 1), origin="lower", aspect="auto", interpolation="none"
    )
    ticks = scale.ticks()
    if _PITCH * (sheet.base - 1) * len(ticks) > 72 * box.height:
        ticks = {share: ticks[share] for share in (min(ticks), max(ticks))}
    axes.set_xticks([])
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.yaxis.tick_right()
    right = left + _WIDE + 2 * _TO_TEXT + _ticks_width(sheet, scale)
    middle = box.bottom + box.height / 2
    look = {"size": sheet.base - 1, "color": sheet.theme.dim}
    fitting = first_fitting(words, 72 * box.height, sheet.base - 1)
    sheet.write(fitting, right, middle, rotation=90, va="center", ha="left", **look)
    if hidden:
        _draw_hidden(sheet, left, beside.bottom, hidden)


def _ticks_width(sheet: Sheet, scale: Scale) -> float:
    return sheet.widest(list(scale.ticks().values()), sheet.base - 1)


def _draw_hidden(sheet: Sheet, left: float, bottom: float, hidden: str) -> None:
    axes = sheet.axes(Box(left, bottom, _WIDE, _WIDE))
    axes.set(facecolor=sheet.theme.hidden, xticks=[], yticks=[])
    look = {"size": sheet.base - 1, "color": sheet.theme.dim}
    sheet.write(hidden, left + _WIDE + _TO_TEXT, bottom + _WIDE / 2, va="center", **look)
