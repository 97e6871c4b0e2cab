"""One row: its heaviest keys as bars; above them, where it is long, all of it as a curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour.scale import short, steps
from regard.display import Style
from regard.plot.lettering import cut, first_fitting, visible
from regard.plot.sheet import About, Box, Sheet, opened
from regard.plot.ticks import LABELLED, tick_positions
from regard.recording import Head, PromptView
from regard.views.row import RowView, make_row
from regard.views.text import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Numbers: TypeAlias = NDArray[np.float64]

_SIZE: Final = (8.0, 5.6)
_HEAVIEST: Final = 16  # keys
_MOST_POINTS: Final = 1000
_CURVE: Final = 0.55  # of the height
_BOTH: Final = 1.8  # inches that a curve and bars need together
_BELOW_CURVE: Final = 8  # bars
_LINE: Final = 1.6  # what a bar is high, in units of a text's size
_LONGEST: Final = 1.6  # inches of a token
_FAINTEST: Final = 0.0005  # what three decimals can say
_BELOW_EVEN: Final = 100.0  # how far below an even spread a log axis goes


def row(
    prompt: PromptView, head: Head, about: About, number: int, *, raw: bool, style: Style
) -> Figure:
    """Row `number`, -1 is the last. Its curve has a log axis, or (raw) a linear one."""
    with opened(style, _SIZE) as sheet:
        data = make_row(prompt, head, number, top=_HEAVIEST)
        weights = None
        if data.weights is not None and head.shape[1] > LABELLED:
            weights = np.where(data.seen, data.weights, np.nan)
        token = "" if data.token is None else f" “{visible(data.token)}”"
        notes = _curve_notes(data, weights, raw) if weights is not None else _bar_notes(head, data)
        sheet.write_words(about, f"{head.label} · row {data.row}{token}", notes)
        place = sheet.free
        if weights is None:
            _draw_bars(sheet, head, data, place, len(data.top))
            return sheet.figure
        high = _CURVE * place.height if place.height > _BOTH else place.height
        rest = place.height - high
        _draw_curve(
            sheet, data, weights, place._replace(bottom=place.bottom + rest, height=high), raw
        )
        if rest:
            _draw_bars(sheet, head, data, place._replace(height=rest - 0.12), _BELOW_CURVE)
    return sheet.figure


def pooled_row(weights: _Numbers, most: int) -> tuple[int, _Numbers]:
    """(keys a point, points): the largest weight of each few neighbours; NaN where all are
    masked."""
    cell = max(-(-weights.size // most), 1)
    largest = np.fmax.reduceat(weights, np.arange(0, weights.size, cell))
    return cell, largest


def _sees(data: RowView) -> str:
    return f"row {data.row} sees {count(data.visible, 'key')}"


def _bar_notes(head: Head, data: RowView) -> list[str]:
    known = "" if head.exact else f"; only the heaviest are known: {head.why_not}"
    return [f"{_sees(data)}; weight, linear{known}"]


def _curve_notes(data: RowView, weights: _Numbers, raw: bool) -> list[str]:
    cell = pooled_row(weights, _MOST_POINTS)[0]
    points = f"max of {cell} keys a point" if cell > 1 else "one key a point"
    even = f"dashed: an even spread, {short(1 / max(data.visible, 1))}"
    axis = "linear" if raw else "log"
    return [f"{_sees(data)}; curve: {points}, weight, {axis}; {even}; dots: the heaviest keys"]


def _draw_curve(sheet: Sheet, data: RowView, weights: _Numbers, place: Box, raw: bool) -> None:
    cell, points = pooled_row(weights, _MOST_POINTS)
    even = 1 / max(data.visible, 1)
    high = max(float(np.nan_to_num(points).max()), even) if raw else 1.0
    low = 0.0 if raw else even / _BELOW_EVEN
    box, room = sheet.inside(place, "0.0001")
    box = box._replace(width=box.width - 0.1, height=max(box.height, 0.3))
    axes = sheet.axes(box)
    at = (np.arange(points.size) + 0.5) * cell
    axes.fill_between(
        at, 0, 1, where=np.isnan(points), transform=axes.get_xaxis_transform(),
        color=sheet.theme.hidden, linewidth=0,
    )  # fmt: skip
    # what is nothing on a log axis leaves the frame below
    axes.plot(at, np.maximum(points, 1e-3 * low), color=sheet.theme.lines[0], linewidth=0.8)
    axes.axhline(even, color=sheet.theme.dim, linewidth=0.7, linestyle=(0, (4, 3)))
    marked = np.array([(key + 0.5, weight) for key, weight in data.top[:_BELOW_CURVE]])
    dots = marked.reshape(-1, 2)[marked.reshape(-1, 2)[:, 1] >= low]
    axes.plot(*dots.T, "o", color=sheet.theme.lines[1], markersize=3.5, clip_on=False)
    axes.set(xlim=(0, weights.size), yscale="linear" if raw else "log")
    axes.set_ylim(low, high * (1.05 if raw else 1.3))
    values = steps(low, high, 4) if raw else _decades(low, high)
    ticks = tick_positions(0, weights.size, box.width, sheet)
    axes.set_xticks(ticks.places, ticks.texts)
    axes.set_yticks(values, [short(value) for value in values])
    axes.tick_params(which="minor", left=False)
    sheet.name_axes(box, ["key"], ["weight"], room)


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between the ends, every other one where there are many."""
    every = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return [10.0**n for n in every if n % (1 if len(every) <= 5 else 2) == 0]


def _draw_bars(sheet: Sheet, head: Head, data: RowView, place: Box, most: int) -> None:
    size, line = sheet.base - 1, _LINE * (sheet.base - 1) / 72
    fitting = int((place.height - 2.6 * size / 72) / line)
    told = sum(weight >= _FAINTEST for _, weight in data.top)
    top = data.top[: max(min(most, fitting, told), 1)]
    names = [_name(head, key, size) for key, _ in top]
    left = sheet.widest(names, size) + 0.1
    high = min(place.height - 2.0 * size / 72, max(len(top), 1) * 1.4 * line)
    box = Box(place.left + left, place.bottom + place.height - high, place.width - left, high)
    _draw_weights(sheet, box, names, [weight for _, weight in top])
    total = f"{sum(weight for _, weight in top):.3f} of the row's weight"
    whose = f"the {len(top)} heaviest keys hold" if len(top) != 1 else "the heaviest key holds"
    words = (f"{whose} {total}; in brackets: which key", f"{whose} {total}", total)
    fits = first_fitting(words, 72 * box.width, size)
    sheet.write(fits, box.left, box.bottom - 0.06, va="top", size=size, color=sheet.theme.dim)


def _draw_weights(sheet: Sheet, box: Box, names: list[str], weights: list[float]) -> None:
    size, axes = sheet.base - 1, sheet.axes(box)
    for n, weight in enumerate(weights):
        axes.annotate(
            f"{weight:.3f}", (weight, n), xytext=(3, 0), textcoords="offset points", size=size,
            color=sheet.theme.ink, va="center_baseline",
        )  # fmt: skip
    axes.barh(range(len(names)), weights, height=0.72, color=sheet.theme.lines[1], linewidth=0)
    beside = min(sheet.widest(["0.000"], size) + 0.08, box.width / 2)  # the figure at a bar's end
    longest = max(weights, default=1.0)
    axes.set_xlim(0, longest * box.width / (box.width - beside))
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks(range(len(names)), names, fontsize=size)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _name(head: Head, key: int, size: float) -> str:
    tokens = head.key_names or []
    if key >= len(tokens):
        return f"key {key}"
    return f"{cut(visible(tokens[key]), 72 * _LONGEST, size)} ({key})"
