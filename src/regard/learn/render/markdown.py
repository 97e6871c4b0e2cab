"""The lesson as Markdown: arithmetic in fenced blocks, matrices as tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from regard.learn.story.document import Document, Grid, Lines, Part, Prose, Section

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def markdown_page(document: Document) -> str:
    """The whole document as text that any Markdown reader shows."""
    lines = [f"# {_escaped(document.title)}", ""]
    lines += [f"{_escaped(sentence)}  " for sentence in document.opening]
    lines += ["", f"    {document.formula}", ""]
    for section in document.sections:
        lines += _section(section)
    return "\n".join(lines)


def _section(section: Section) -> Iterable[str]:
    number = f"{section.number}. " if section.number is not None else ""
    yield from (f"## {number}{_escaped(section.title)}", "")
    if section.why:
        yield from (f"*{_escaped(section.why)}*", "")
    for part in section.parts:
        yield from (*_part(part), "")


def _part(part: Part) -> Iterable[str]:
    if isinstance(part, Prose):
        bullet = part.text.startswith("• ")
        return ["- " * bullet + _escaped(part.text.removeprefix("• "))]
    if isinstance(part, Lines):
        return _fenced(["".join(span.text for span in one).rstrip() for one in part.lines])
    return [row for grid in part.grids for row in (*_table(grid), "")]


def _fenced(lines: list[str]) -> list[str]:
    """A fence longer than any run of backticks inside, so that no token can close it."""
    longest = max((len(run) for one in lines for run in re.findall("`+", one)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _table(grid: Grid) -> Iterable[str]:
    yield from (f"**{_escaped(grid.title)}**", "")
    yield _row(["", *grid.columns])
    yield "|:--|" + "--:|" * len(grid.columns)
    for label, cells in zip(grid.rows, grid.cells, strict=True):
        yield _row([label, *cells])
    if grid.remark:
        yield from ("", _escaped(grid.remark))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    """Words of the user stay words: no markup, no HTML, no table bars."""
    return _SPECIAL.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;")
