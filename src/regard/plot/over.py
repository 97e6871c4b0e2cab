"""Weights over the pictures they look at: one head's, or those of all heads side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour.over import blended, resized
from regard.colour.scale import Scale
from regard.display import Style
from regard.errors import InputError
from regard.plot.legend import bar_width, draw_bar
from regard.plot.lettering import cut, safe, visible
from regard.plot.maps import shade
from regard.plot.sheet import About, Box, Sheet, opened
from regard.recording import Head, PromptView
from regard.views.decoded import decoded
from regard.views.picture import GridOverlay, Overlay, overlay
from regard.views.positions import patch_scale, window_words
from regard.views.uniform import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Shares: TypeAlias = NDArray[np.float64]
_Pixels: TypeAlias = NDArray[np.uint8]

_SIZE: Final = (8.0, 8.0)
_MOST_PANELS: Final = 12  # pictures, or frames, of one row
_MOST_HEADS: Final = 400
_LARGEST: Final = 768  # pixels a side that are blended
_GAP: Final = 0.08  # inches between panels
_BESIDE, _ABOVE_AND_BELOW = 1.4, 1.5  # inches of the bar, and of title and notes
_NAME: Final = 0.15
_HEIGHTS: Final = (3.5, 16.0)
_LETTERED: Final = 0.5  # inches a panel, from which it has a name
_WEIGHT: Final = ("weight",)
_TIMES: Final = ("times an even share: 1 is an even spread", "times an even share", "× even share")


@dataclass(frozen=True)
class _Panel:
    """A picture, or frame, with what lies over it."""

    name: str
    shares: _Shares  # (rows, columns): NaN where nothing is known
    pixels: _Pixels | None
    own: tuple[int, int] | None = None  # the patch that looks, or is looked at


def over_picture(
    prompt: PromptView, over: Overlay, about: About, *, look: Look, style: Style
) -> Figure:
    """A row or column over its pictures; where there are many, those with most weight."""
    if not over.axis.grids():
        side = "queries" if over.kind == "column" else "keys"
        raise InputError(f"{over.head.label}: its {side} are no patches of a picture")
    scale = patch_scale([over], look)
    panels, left_out = _panels(prompt, over, scale, look)
    with opened(style, _SIZE) as sheet:
        notes = _notes(over, scale, panels, left_out)
        sheet.write_words(about, f"{over.head.label} · {_which(over)}", notes)
        _draw(sheet, panels, scale, look)
    return sheet.figure


def heads_over_picture(
    prompt: PromptView, heads: Sequence[Head], query: int, about: About, *, look: Look, style: Style
) -> Figure:
    """The same row of every head over the first picture, on one scale."""
    fitting = [one for one in heads if one.exact and one.key_axis.grids()]
    if not fitting:
        raise InputError("no head here has every weight and keys that are patches of a picture")
    if len(fitting) > _MOST_HEADS:
        raise InputError(f"{len(fitting)} heads; at most {_MOST_HEADS} fit: name some of them")
    overlays = [overlay(one, query=query) for one in fitting]
    scale = patch_scale(overlays, look)
    pictures: dict[int, _Pixels | None] = {}
    panels = []
    for one in overlays:
        grid = one.grids[0]
        frame = _heaviest_frame(grid)
        number = _number(grid, frame)
        if number not in pictures:
            pictures[number] = decoded(prompt, number).pixels
        shares = _shares(grid, frame, scale, look)
        own = _own(one, grid, frame)
        panels.append(_Panel(one.head.label, shares, pictures[number], own))
    across = _columns(fitting)
    with opened(style, _fitting(panels, across)) as sheet:
        skipped = len(heads) - len(fitting)
        notes = [f"a panel a head; {scale}; the frame marks the patch that looks"]
        if skipped:
            notes.append(f"{skipped} heads are left out: not every weight of theirs is known")
        sheet.write_words(about, f"{len(panels)} heads · {_which(overlays[0])}", notes)
        _draw(sheet, panels, scale, look, across)
    return sheet.figure


def _columns(heads: Sequence[Head]) -> int:
    """Heads of a layer side by side, where all layers have as many; else as a square."""
    sizes = [sum(one.place.label == label for one in heads) for label in
             dict.fromkeys(one.place.label for one in heads)]  # fmt: skip
    return sizes[0] if len(set(sizes)) == 1 and len(sizes) > 1 else 0


def _fitting(panels: Sequence[_Panel], across: int) -> tuple[float, float]:
    """Inches of a sheet that many panels fill."""
    if not across:
        return _SIZE
    wide = (_SIZE[0] - _BESIDE) / across
    ratio = max(one.shares.shape[0] / one.shares.shape[1] for one in panels)
    high = -(-len(panels) // across) * (wide * ratio + _GAP + _NAME) + _ABOVE_AND_BELOW
    return _SIZE[0], float(np.clip(high, *_HEIGHTS))


def _panels(
    prompt: PromptView, over: Overlay, scale: Scale, look: Look
) -> tuple[list[_Panel], float]:
    """The pictures with most weight, in their order; and the weight on those left out."""
    every = [(grid, frame) for grid in over.grids for frame in range(grid.grid.frames)]
    masses = [float(np.nansum(grid.weights[frame])) for grid, frame in every]
    best = sorted(np.argsort(masses, kind="stable")[::-1][:_MOST_PANELS].tolist())
    found = []
    for n in best:
        grid, frame = every[n]
        number = _number(grid, frame)
        noted = prompt.pictures[number] if 0 <= number < len(prompt.pictures) else None
        name = noted.title if noted is not None else ""
        if grid.grid.frames > 1:
            when = "" if noted is None or noted.seconds is None else f", {noted.seconds:.2f} s"
            name = f"frame {frame}{when}"
        shares = _shares(grid, frame, scale, look)
        own = _own(over, grid, frame)
        pixels = decoded(prompt, number).pixels
        found.append(_Panel(name if len(every) > 1 else "", shares, pixels, own))
    return found, sum(masses) - sum(masses[n] for n in best)


def _number(grid: GridOverlay, frame: int) -> int:
    return grid.picture if grid.picture < 0 or grid.grid.apart else grid.picture + frame


def _heaviest_frame(grid: GridOverlay) -> int:
    return int(np.nansum(grid.weights, axis=(1, 2)).argmax())


def _shares(grid: GridOverlay, frame: int, scale: Scale, look: Look) -> _Shares:
    laid = grid.weights if look.raw else grid.times
    return scale.shares(grid.place.over_picture(laid)[frame])


def _own(over: Overlay, grid: GridOverlay, frame: int) -> tuple[int, int] | None:
    """Where the query of a row (or the key of a column) lies on this very picture."""
    head, at = over.head, over.at
    axis = head.key_axis if over.kind == "column" else head.query_axis
    if at is None or axis != over.axis or not grid.start <= at < grid.start + grid.grid.count:
        return None
    cell = grid.grid.cell(at - grid.start)
    if cell is None or cell.frame != frame:
        return None
    (high, wide), (top, left) = grid.place.size, grid.place.corner
    return (cell.row + top) % high, (cell.column + left) % wide


# ── words ────────────────────────────────────────────────────────────────────────────────────


def _which(over: Overlay) -> str:
    if over.kind == "received":
        return "received"
    is_row, at = over.kind == "row", over.at or 0
    names = over.head.query_names if is_row else over.head.key_names
    name = f" “{visible(names[at])}”" if names is not None and at < len(names) else ""
    return f"row {at}{name}" if is_row else f"who looks at key {at}{name}"


def _notes(over: Overlay, scale: Scale, panels: Sequence[_Panel], left_out: float) -> list[str]:
    shares = {"grid": "patches", "text": "text", "frames": "sound", "other": "others"}
    facts = [
        f"{sum(own):.3f} on {word}"
        for kind, word in shares.items()
        if (own := [one.mass for one in over.masses if one.part.kind == kind])
    ]
    for grid in over.grids:
        facts += [f"{weight:.3f} on {safe(name)}" for name, weight, _ in grid.prefix]
    said = [f"{scale}; weight: {', '.join(facts)}"]
    window = window_words(over.head)
    if window:
        said.append(f"{window}; dark: outside of it")
    if left_out > 0.0005:
        said.append(f"{left_out:.3f} lies on pictures that are not drawn")
    if any(one.own is not None for one in panels):
        what = "that is looked at" if over.kind == "column" else "that looks"
        said.append(f"the frame marks the patch {what}")
    return said


# ── drawing ──────────────────────────────────────────────────────────────────────────────────


def _draw(
    sheet: Sheet, panels: Sequence[_Panel], scale: Scale, look: Look, columns: int = 0
) -> None:
    """The panels in as many columns as let them be largest, and the colour bar beside them."""
    hidden = (
        "not known" if any(np.isnan(p.shares).any() and p.pixels is None for p in panels) else ""
    )
    bar = bar_width(sheet, scale, hidden)
    room = sheet.free.width - bar, sheet.free.height
    ratio = max(p.shares.shape[1] / p.shares.shape[0] for p in panels)
    named = any(p.name for p in panels)
    line = 1.3 * (sheet.base - 1) / 72 if named else 0.0
    across = columns or max(
        range(1, len(panels) + 1), key=lambda n: _side(n, panels, room, ratio, line)
    )
    wide = _side(across, panels, room, ratio, line)
    line = line if wide >= _LETTERED else 0.0
    high = wide / ratio
    down = -(-len(panels) // across)
    width, height = across * (wide + _GAP) - _GAP, down * (high + line + _GAP) - _GAP
    left = sheet.free.left + max(room[0] - width, 0) / 2
    top = sheet.free.bottom + sheet.free.height
    for n, one in enumerate(panels):
        row, column = divmod(n, across)
        at = top - row * (high + line + _GAP) - line
        box = Box(left + column * (wide + _GAP), at - high, wide, high)
        if line:
            size = min(sheet.base - 1, 72 * wide / 6)
            text = cut(safe(one.name), 72 * wide, size)
            sheet.write(text, box.left, at + 0.02, size=size, color=sheet.theme.dim, va="bottom")
        _draw_panel(sheet, box, one)
    whole = Box(left, top - height, width, height)
    draw_bar(sheet, scale, whole, _WEIGHT if look.raw else _TIMES, hidden)


def _side(
    across: int, panels: Sequence[_Panel], room: tuple[float, float], ratio: float, line: float
) -> float:
    """How wide a panel is where so many stand side by side."""
    down = -(-len(panels) // across)
    wide = (room[0] - (across - 1) * _GAP) / across
    high = (room[1] - (down - 1) * _GAP) / down - line
    return max(min(wide, high * ratio), 0.02)


def _draw_panel(sheet: Sheet, box: Box, panel: _Panel) -> None:
    high, wide = panel.shares.shape
    axes = sheet.axes(box)
    if panel.pixels is None:
        colours = shade(panel.shares, sheet)
    else:
        pixels = _not_too_large(panel.pixels)
        colours = blended(pixels, _spread(panel.shares, pixels.shape[:2]))
    axes.imshow(colours, extent=(0, wide, high, 0), aspect="auto", interpolation="none")
    axes.set(xticks=[], yticks=[])
    if panel.own is not None:
        _mark(axes, panel.own, box)


def _mark(axes: Axes, own: tuple[int, int], box: Box) -> None:
    """A frame that is seen on dark and on bright."""
    from matplotlib.patches import Rectangle

    thin = min(box.width, 2.0)
    for colour, width in (("#000000", 1.2 * thin), ("#ffffff", 0.6 * thin)):
        axes.add_patch(
            Rectangle((own[1], own[0]), 1, 1, fill=False, edgecolor=colour, linewidth=width)
        )


def _not_too_large(pixels: _Pixels) -> _Pixels:
    high, wide = pixels.shape[:2]
    factor = min(_LARGEST / max(high, wide), 1.0)
    return resized(pixels, max(round(high * factor), 1), max(round(wide * factor), 1))


def _spread(shares: _Shares, size: tuple[int, ...]) -> _Shares:
    """Each pixel's share: that of the patch it lies in."""
    rows, columns = (np.arange(n) * m // n for n, m in zip(size, shares.shape, strict=True))
    return shares[rows[:, None], columns]
