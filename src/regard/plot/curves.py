"""Entropy by layer: the middle of the heads, and how far most of them are from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour.scale import steps
from regard.display import Style
from regard.plot.lettering import flowing
from regard.plot.sheet import About, Sheet, opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Numbers: TypeAlias = NDArray[np.float64]

_SIZE: Final = (8.0, 5.0)
_BAND: Final = (10, 50, 90)  # percent of a layer's heads
_NOTE: Final = (
    "line: median of a layer's heads; band: 10–90 % of them; "
    "mean entropy of a row as a share of the largest possible"
)


def entropy(grids: Mapping[str, _Numbers], about: About, *, style: Style) -> Figure:
    """By stack of layers: the grid (layers, heads) of normalised entropies."""
    with opened(style, _SIZE) as sheet:
        sheet.write_words(about, "entropy by layer", [_NOTE])
        last = max((len(one) for one in grids.values()), default=1) - 1
        axes = _axes(sheet, last)
        for colour, (stack, values) in zip(_colours(sheet, len(grids)), grids.items(), strict=True):
            _draw(axes, spread(values), colour, stack)
        axes.legend(
            fontsize=sheet.base - 1, frameon=False, labelcolor=sheet.theme.ink, loc="lower left",
            bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.1, handlelength=1.5,
        )  # fmt: skip
    return sheet.figure


def spread(values: _Numbers) -> _Numbers:
    """(3, layers): 10 %, 50 % and 90 % of the known heads of each layer; NaN without any."""
    known = [row[np.isfinite(row)] for row in values]
    found = [np.percentile(row, _BAND) if row.size else np.full(3, np.nan) for row in known]
    return np.array(found).reshape(-1, 3).T


def _axes(sheet: Sheet, last: int) -> Axes:
    box, room = sheet.inside(sheet.free, "1.0")
    box = box._replace(height=box.height - sheet.base * 2 / 72)  # the legend's
    axes = sheet.axes(box)
    axes.set_xlim(-0.5, last + 0.5)
    axes.set_ylim(0, 1)
    layers = [n for n in steps(0, last, max(int(box.width / 0.35), 3)) if n == round(n)]
    axes.set_xticks(layers, [f"L{n:.0f}" for n in layers])
    heights = steps(0, 1, max(int(box.height / 0.25), 2))
    axes.set_yticks(heights, [f"{one:.1f}" for one in heights])
    axes.grid(color=sheet.theme.rule, linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    sheet.name_axes(box, ["layer"], ["normalised entropy", "entropy"], room)
    return axes


def _draw(axes: Axes, bands: _Numbers, colour: str, stack: str) -> None:
    layers = np.arange(bands.shape[1])
    names = (flowing(stack), None) if stack else ("median", "10–90 %")
    axes.plot(
        layers, bands[1], color=colour, linewidth=1.6, marker="o", markersize=3, label=names[0]
    )
    axes.fill_between(
        layers, bands[0], bands[2], color=colour, alpha=0.25, linewidth=0, label=names[1]
    )


def _colours(sheet: Sheet, count: int) -> list[str]:
    known = sheet.theme.lines
    return [known[n % len(known)] for n in range(count)]
