"""The last touch before lines are shown: none is wider than the paper, none steers a terminal."""

from __future__ import annotations

import textwrap

from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells, fitted, safe


def finished(lines: list[StyledLine], paper: Paper) -> list[StyledLine]:
    """The lines with everything spelt out that has to be, cut at the paper's edge."""
    return [_cut([(safe(text, paper), style) for text, style in line], paper) for line in lines]


def wrapped(text: str, paper: Paper, style: str = "", *, indent: int = 0) -> list[StyledLine]:
    """A sentence over as many lines as it takes; all but the first are indented."""
    room = max(paper.width, indent + 20)
    rows = textwrap.wrap(safe(text, paper), room, subsequent_indent=" " * indent)
    return [[(row, style)] for row in rows]


def _cut(line: StyledLine, paper: Paper) -> StyledLine:
    if sum(cells(text) for text, _ in line) <= paper.width:
        return line
    kept: StyledLine = []
    room = paper.width
    for text, style in line:
        if cells(text) >= room:  # the cut is marked even where this piece alone would fit
            kept.append((fitted(text + " ", room, paper), style))
            break
        kept.append((text, style))
        room -= cells(text)
    return kept
