"""The lesson on a terminal, or as plain text in a pipe. Columns of grids are never broken inside a
number, weights are shaded where there is colour, small grids stand side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.learn.languages import Language, language
from regard.learn.story.document import (
    Document,
    Grid,
    Grids,
    Line,
    Lines,
    Part,
    Prose,
    Role,
    Section,
)
from regard.learn.text import HIDDEN, cells, padded, wrapped

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


_INDENT = 3
_WIDEST = 92  # prose is not read well in longer lines


def print_document(document: Document, console: Console) -> None:
    """Write every section. Colours, where the console has any, follow the roles."""
    for row in _rows(document, console.width):
        console.print(row)


def _rows(document: Document, width: int) -> Iterable[Text]:
    yield Text(document.title, Style(bold=True))
    for sentence in document.opening:
        yield from _prose(sentence, width, indent=0)
    yield Text()
    yield Text(" " * _INDENT + document.formula)
    say = language(document.language)
    for section in document.sections:
        yield Text()
        yield from _section(section, width, say)


def _section(section: Section, width: int, say: Language) -> Iterable[Text]:
    mark = "" if section.number is None else str(section.number).ljust(_INDENT)
    for n, words in enumerate(_wrap(section.title, width - _INDENT)):
        yield Text((" " * len(mark) if n else mark) + words, Style(bold=True))
    if section.why:
        yield from _prose(section.why, width, style=Style(italic=True))
    for part in section.parts:
        yield from _part(part, width, say)


def _part(part: Part, width: int, say: Language) -> Iterable[Text]:
    if isinstance(part, Prose):
        yield from _prose(part.text, width)
    elif isinstance(part, Lines):
        yield from (_line(one) for one in part.lines)
    else:
        yield from _grids(part, width, say)


def _grids(part: Grids, width: int, say: Language) -> Iterable[Text]:
    for row in side_by_side(part.grids, width - _INDENT - 1, say):
        yield Text(" " * _INDENT) + row if row else row


def _line(one: Line) -> Text:
    text = Text(" " * _INDENT)
    for span in one:
        text.append(span.text, STYLES[span.role])
    text.rstrip()
    return text


def _prose(
    sentence: str, width: int, *, indent: int = _INDENT, style: Style | None = None
) -> Iterable[Text]:
    hang = 2 if sentence.startswith("• ") else 0
    for n, words in enumerate(_wrap(sentence, min(width, _WIDEST) - indent - hang - 1)):
        yield Text(" " * (indent + (hang if n else 0)) + words, style or Style())


def _wrap(sentence: str, width: int) -> list[str]:
    # Words of the user may be longer than the line; they are left whole for the terminal to break.
    return wrapped(sentence, max(width, 20), break_long_words=False)
