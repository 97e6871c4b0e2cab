"""A head's matrix as a heat map: queries downwards, keys across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.colour.shades import codes, palette
from regard.display import Style
from regard.errors import InputError, UnavailableError
from regard.plot.legend import bar_width, draw_bar
from regard.plot.sheet import About, Box, Sheet, opened
from regard.plot.ticks import LABELLED, Ticks, place_ticks, tick_positions, tick_tokens
from regard.recording import Head, PromptView
from regard.views.uniform import Look, MapCells, fitting_cell, make_cells, sight_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Colours: TypeAlias = NDArray[np.uint8]

_SIZE: Final = (8.0, 8.0)
_FINEST: Final = 512  # cells a side; more are for those who ask
_SHARE: Final = 0.5  # of the sheet's shorter side that the map has at least
_WIDEST: Final = 3.0  # keys to rows, or rows to keys, that are drawn as squares
_ROUND_TICKS: Final = 0.12  # inches from an axis to the texts of its ticks, and beyond them
_KEYS: Final = ("key: what is looked at", "key")
_QUERIES: Final = ("query: who looks", "query")
_WEIGHT: Final = ("weight",)
_TIMES: Final = ("times an even share: 1 is an even spread", "times an even share", "× even share")


class _Frame(NamedTuple):
    """Where the map stands, and what stands along it."""

    box: Box
    below: Ticks
    left: Ticks
    room: tuple[float, float]  # inches of the ticks: left, below


def head_map(
    prompt: PromptView,
    head: Head,
    about: About,
    look: Look,
    *,
    cell: int | None = None,
    style: Style,
) -> Figure:
    """The map in cells of `cell` tokens (by default as many as fit), coloured by how many times
    uniform they are, or (raw) by weight."""
    with opened(style, _SIZE) as sheet:
        side = max(int(_SHARE * min(sheet.size) * sheet.dpi), 8)
        cells = _cells(prompt, head, look, cell, side)
        scale, shares = cells.scale(look), cells.shares(look)
        hidden = "masked" if np.isnan(shares).any() else ""
        sheet.write_words(about, head.label, [f"{cells.pooling()}; {scale}"])
        frame = _frame(sheet, head, cells.cell, bar_width(sheet, scale, hidden))
        _draw(sheet, frame, head, cells, shade(shares, sheet))
        draw_bar(sheet, scale, frame.box, _WEIGHT if look.raw else _TIMES, hidden)
    return sheet.figure


def _cells(prompt: PromptView, head: Head, look: Look, cell: int | None, side: int) -> MapCells:
    """In cells of the wanted size, or of as many tokens as are needed for `side` of them."""
    if not sight_of(prompt, head).is_complete:
        raise UnavailableError(
            f"{head.label}: its mask is not known, so a picture cannot say what is masked; "
            "head.pooled() has the numbers"
        )
    if cell is None:
        fits = fitting_cell(head, min(side, _FINEST), look.how)
        return make_cells(prompt, head, fits, look.how)
    size = max(len(head.recorded), head.shape[1], 1)
    if cell < 1:
        raise InputError(f"a cell of {cell} tokens; give a number ≥ 1")
    if -(-size // cell) > side:
        raise InputError(
            f"a cell of {cell} makes {-(-size // cell):,} cells a side, and {side} fit; give a "
            f"cell of {-(-size // side)} or more, or a larger size or dpi"
        )
    return make_cells(prompt, head, cell, look.how)


def shade(shares: ArrayLike, sheet: Sheet) -> _Colours:
    """(…, 3): the colours of shares; NaN has the colour of what is hidden."""
    given = np.asarray(shares, np.float64)
    hidden = np.frombuffer(bytes.fromhex(sheet.theme.hidden[1:]), np.uint8)
    return np.where(np.isnan(given)[..., None], hidden, palette()[codes(given)])


def _draw(sheet: Sheet, frame: _Frame, head: Head, cells: MapCells, colours: _Colours) -> None:
    axes = sheet.axes(frame.box)
    lines, columns = colours.shape[:2]
    bottom = cells.first_row + lines * cells.cell
    axes.imshow(
        colours,
        extent=(0, columns * cells.cell, bottom, cells.first_row),
        aspect="auto",
        interpolation="none",
    )
    axes.set_xlim(0, head.shape[1])  # the last cells may be cut: they hold fewer tokens
    axes.set_ylim(head.recorded.stop, head.recorded.start)
    is_named = _tokens(head) is not None
    place_ticks(axes, below=frame.below, left=frame.left, turned=is_named)
    sheet.name_axes(frame.box, _KEYS, _QUERIES, frame.room)


def _frame(sheet: Sheet, head: Head, cell: int, bar: float) -> _Frame:
    """As large as the sheet allows. The ticks take room, and their size depends on what is left,
    so it is settled in a few rounds."""
    name = sheet.base * 1.3 / 72
    tokens = _tokens(head) if cell == 1 else None
    width, height = sheet.free.width - bar - 0.6, sheet.free.height - 0.5
    for _ in range(3):
        below, left = _ticks(sheet, head, tokens, (width, height))
        turned = sheet.widest(below.texts, below.size)
        tall = turned if tokens is not None else below.size / 72
        room = (sheet.widest(left.texts, left.size) + _ROUND_TICKS, tall + _ROUND_TICKS)
        free = sheet.free.width - bar - room[0] - name, sheet.free.height - room[1] - name
        width, height = _fit(free, head.shape[1] / max(len(head.recorded), 1))
    spare = max(sheet.free.width - bar - room[0] - name - width, 0)
    over = sheet.free.bottom + sheet.free.height
    box = Box(sheet.free.left + name + room[0] + spare / 2, over - height, width, height)
    return _Frame(box, below, left, room)


def _fit(free: tuple[float, float], ratio: float) -> tuple[float, float]:
    """The largest width and height with square tokens; a very long strip fills what is free."""
    wide, high = (max(side, 0.5) for side in free)
    if not 1 / _WIDEST <= ratio <= _WIDEST:
        return wide, high
    return min(wide, high * ratio), min(high, wide / ratio)


def _ticks(
    sheet: Sheet,
    head: Head,
    tokens: tuple[Sequence[str], Sequence[str]] | None,
    size: tuple[float, float],
) -> tuple[Ticks, Ticks]:
    rows = head.recorded
    if tokens is None:
        return (
            tick_positions(0, head.shape[1], size[0], sheet),
            tick_positions(rows.start, rows.stop, size[1], sheet),
        )
    queries, keys = tokens
    return (
        tick_tokens(keys, 0, size[0], sheet),
        tick_tokens(queries, rows.start, size[1], sheet),
    )


def _tokens(head: Head) -> tuple[Sequence[str], Sequence[str]] | None:
    """The texts of rows and keys, where there are few enough to be read."""
    queries, keys, rows = head.query_names, head.key_names, head.recorded
    if queries is None or keys is None or max(len(rows), head.shape[1]) > LABELLED:
        return None
    own = queries[rows.start : rows.stop]
    if (len(own), len(keys)) != (len(rows), head.shape[1]):
        return None  # an unfinished recording may have rows before it has their tokens
    return own, keys
