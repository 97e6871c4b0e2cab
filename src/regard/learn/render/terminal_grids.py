"""Grids as terminal rows: columns never broken inside a number, weights shaded where there is
colour, small grids side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.learn.languages import Language
from regard.learn.story.document import Grid, Role
from regard.learn.text import HIDDEN, cells, padded

# Okabe and Ito's hues, at lightnesses that keep a contrast of 3 on black and on white alike.
STYLES: dict[Role, Style] = {
    "plain": Style(),
    "quiet": Style(dim=True),
    "x": Style(),
    "q": Style(color="#2e8fd0"),
    "k": Style(color="#d07a00"),
    "v": Style(color="#009e73"),
    "score": Style(),
    "weight": Style(color="#c06a9b"),
    "output": Style(bold=True),
}
_LOW, _HIGH = (43, 24, 38), (232, 160, 204)
_GAP = 4


def side_by_side(grids: Sequence[Grid], width: int, say: Language) -> Iterable[Text]:
    """The grids' rows, as many grids to a band as fit, wide ones cut into pieces by columns."""
    band: list[list[Text]] = []
    for grid in grids:
        for piece in _pieces(grid, width, say):
            block = _block(piece)
            if band and sum(_wide(b) + _GAP for b in band) + _wide(block) > width:
                yield from _band(band)
                band = []
            band.append(block)
    yield from _band(band)


def _band(blocks: list[list[Text]]) -> Iterable[Text]:
    """Blocks beside one another, an empty row above."""
    yield Text()
    for n in range(max(map(len, blocks))):
        row = Text()
        for block in blocks:
            part = block[n] if n < len(block) else Text()
            row += part
            row.append(" " * (_wide(block) + _GAP - cells(part.plain)))
        row.rstrip()
        yield row


def _wide(block: list[Text]) -> int:
    return max(cells(row.plain) for row in block)


def _pieces(grid: Grid, width: int, say: Language) -> list[Grid]:
    """The grid cut so that each piece fits; a piece has at least one column."""
    cuts, used = [0], (left := max(map(cells, grid.rows)))
    for c, wide in enumerate(_column_widths(grid)):
        if used + wide + 2 > width and c > cuts[-1]:
            cuts.append(c)
            used = left
        used += wide + 2
    count = len(grid.columns)
    if len(cuts) == 1:
        return [grid]
    ends = zip(cuts, [*cuts[1:], count], strict=True)
    return [_cut(grid, first, last, say) for first, last in ends]


def _cut(grid: Grid, first: int, last: int, say: Language) -> Grid:
    return replace(
        grid,
        title=say("story.columns", title=grid.title, first=first + 1, last=last),
        columns=grid.columns[first:last],
        cells=tuple(row[first:last] for row in grid.cells),
        shades=grid.shades and tuple(row[first:last] for row in grid.shades),
    )


def _column_widths(grid: Grid) -> list[int]:
    """As wide as the widest number of the grid, more where a label needs it."""
    number = max(len(text) for row in grid.cells for text in row)
    return [max(number, cells(label)) for label in grid.columns]


def _block(grid: Grid) -> list[Text]:
    """Title, column labels, rows, remark."""
    widths, left = _column_widths(grid), max(map(cells, grid.rows))
    head = Text(" " * left)
    for label, wide in zip(grid.columns, widths, strict=True):
        head.append("  " + " " * (wide - cells(label)) + label, Style(dim=True))
    rows = [Text(grid.title, STYLES[grid.role] + Style(bold=True)), head]
    for r, label in enumerate(grid.rows):
        rows.append(_row(grid, r, padded(label, left), widths))
    if grid.remark:
        rows.append(Text(grid.remark, Style(dim=True)))
    return rows


def _row(grid: Grid, r: int, label: str, widths: list[int]) -> Text:
    row = Text(label)
    for c, (text, wide) in enumerate(zip(grid.cells[r], widths, strict=True)):
        row.append(text.rjust(wide + 2), _style(grid, r, c))
    return row


def _style(grid: Grid, r: int, c: int) -> Style:
    if grid.cells[r][c] in (HIDDEN, "…"):
        return STYLES["quiet"]
    return STYLES[grid.role] if grid.shades is None else _shade(grid.shades[r][c])


def _shade(share: float) -> Style:
    """Dark for nothing, bright for everything, and ink that reads on it."""
    part = min(max(share, 0.0), 1.0) ** 0.5  # small weights should still be told apart
    r, g, b = (round(low + (high - low) * part) for low, high in zip(_LOW, _HIGH, strict=True))
    ink = "#ffffff" if part < 0.62 else "#000000"
    return Style(color=ink, bgcolor=Color.from_rgb(r, g, b))
