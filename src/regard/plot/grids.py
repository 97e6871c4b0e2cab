"""One number a head: layers downwards, heads across."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.colour.scale import Scale, linear, short
from regard.colour.shades import codes, is_light
from regard.display import Style
from regard.plot.legend import bar_width, draw_bar
from regard.plot.lettering import width
from regard.plot.maps import shade
from regard.plot.sheet import About, Box, Sheet, opened
from regard.plot.ticks import place_ticks, tick_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE: Final = (8.0, 6.4)
_NUMBERED: Final = 16  # layers and heads, up to which cells have their numbers
_SMALLEST: Final = 4.5  # points
_PARTED: Final = 0.08  # inches of a cell


def grid(
    values: ArrayLike,
    name: str,
    about: About,
    *,
    words: str = "",
    is_share: bool = False,
    stack: str = "",
    style: Style,
) -> Figure:
    """The grid (layers, heads) of a statistic; NaN is not recorded.

    `is_share`: the values lie between 0 and 1, and so does the scale.
    """
    given = np.asarray(values, np.float64)
    scale = Scale(name, 0.0, 1.0) if is_share else linear(name, given)
    notes = [*([f"{name}: {words}"] if words else []), f"one head a cell; {scale}"]
    hidden = "not recorded" if np.isnan(given).any() else ""
    with opened(style, _SIZE) as sheet:
        sheet.write_words(about, f"{stack}, {name}" if stack else name, notes)
        bar = bar_width(sheet, scale, hidden)
        free = sheet.free._replace(width=sheet.free.width - bar)
        box, room = sheet.inside(free, f"L{len(given) - 1}")
        box = box._replace(width=max(box.width, 0.5), height=max(box.height, 0.5))
        axes = _draw(sheet, box, scale.shares(given))
        if max(given.shape) <= _NUMBERED:
            _write_numbers(axes, box, given, scale, is_share)
        sheet.name_axes(box, ["head"], ["layer"], room)
        draw_bar(sheet, scale, box, [name], hidden)
    return sheet.figure


def _draw(sheet: Sheet, box: Box, shares: NDArray[np.float64]) -> Axes:
    axes = sheet.axes(box)
    lines, columns = shares.shape
    axes.imshow(
        shade(shares, sheet), extent=(0, columns, lines, 0), aspect="auto", interpolation="none"
    )
    _part_cells(sheet, axes, box, shares.shape)
    _name_cells(sheet, axes, box, shares.shape)
    return axes


def _part_cells(sheet: Sheet, axes: Axes, box: Box, shape: tuple[int, ...]) -> None:
    """Thin lines between the cells, where these are large."""
    if min(box.height / shape[0], box.width / shape[1]) < _PARTED:
        return
    colour = sheet.theme.paper
    axes.hlines(range(1, shape[0]), 0, shape[1], colour, linewidth=0.5)
    axes.vlines(range(1, shape[1]), 0, shape[0], colour, linewidth=0.5)


def _name_cells(sheet: Sheet, axes: Axes, box: Box, shape: tuple[int, ...]) -> None:
    heads = [f"H{n}" for n in range(shape[1])]
    left = tick_names([f"L{n}" for n in range(shape[0])], 0, box.height, sheet)
    widest = max((width(text, sheet.base - 1) for text in heads), default=1.0)
    # names of heads stand side by side: what a line is high for those above each other
    below = tick_names(heads, 0, box.width * (sheet.base - 1) / widest, sheet)
    place_ticks(axes, below=below, left=left, turned=False)


def _write_numbers(
    axes: Axes, box: Box, values: NDArray[np.float64], scale: Scale, is_share: bool
) -> None:
    """The values in their cells, in black or white, where they can be read."""
    texts = [[f"{x:.2f}" if is_share else short(float(x)) for x in line] for line in values]
    widest = max((width(text, 10.0) for line in texts for text in line), default=1.0)
    room = 72 * box.width / values.shape[1], 72 * box.height / values.shape[0]
    size = min(8.5, 10.0 * 0.85 * room[0] / widest, room[1] / 1.4)
    if size < _SMALLEST:
        return
    shades = codes(scale.shares(values))
    for at in np.argwhere(np.isfinite(values)):
        row, column = at.tolist()
        colour = "#000000" if is_light(int(shades[row, column])) else "#ffffff"
        axes.text(
            column + 0.5, row + 0.5, texts[row][column], size=size, color=colour, ha="center",
            va="center_baseline",
        )  # fmt: skip
