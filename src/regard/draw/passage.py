"""A row as text: the keys' tokens in their order, shaded by how much the row looks at each.

Without colours the heaviest are marked instead: `the cat(0.31) sat`. Of a long text only the
neighbourhoods of the heaviest keys are shown, with what lies between them counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.colour.shades import codes
from regard.draw.palette import shaded
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells, flowing, letters
from regard.views.row import heaviest
from regard.views.text import count

_AROUND = 12  # tokens shown on either side of a heavy key of a long text
_FAINTEST_MARK = 0.005  # what two decimals can say
_SMALL_GAP = 6  # tokens that are shown rather than counted
_WHOLE = 800  # tokens up to which a text is shown whole


@dataclass(frozen=True)
class Passage:
    """One row over the keys from `start` on."""

    tokens: Sequence[str]
    weights: NDArray[np.float64]
    shares: NDArray[np.float64]  # of the scale; NaN where the row may not look
    query: int | None = None  # the key where the row itself stands
    start: int = 0


def shaded_text(passage: Passage, paper: Paper, marks: int = 8) -> list[StyledLine]:
    """The text, broken at its line ends and at the paper's edge."""
    heavy = set(heaviest(passage.weights, marks).tolist())
    lines: list[StyledLine] = [[]]
    expected = 0
    for first, last in _words(passage, heavy):
        if first > expected:
            _place(lines, [_gap(passage, expected, first, paper)], paper.width)
        word = [_piece(passage, n, n in heavy, paper) for n in range(first, last)]
        _place(lines, word, paper.width)
        if passage.tokens[last - 1].endswith("\n"):
            lines.append([])
        expected = last
    if expected < len(passage.tokens):
        _place(lines, [_gap(passage, expected, len(passage.tokens), paper)], paper.width)
    return lines if lines[-1] else lines[:-1]


def _words(passage: Passage, heavy: set[int]) -> Iterator[tuple[int, int]]:
    """Runs of shown tokens that no line should come between: a word begins with a blank, after
    a line end, or after a gap."""
    chosen = _chosen(passage, heavy)
    tokens, first = passage.tokens, 0
    for at, n in enumerate(chosen):
        following = chosen[at + 1] if at + 1 < len(chosen) else None
        ends = following != n + 1 or tokens[following].startswith(" ") or tokens[n].endswith("\n")
        if ends:
            yield chosen[first], n + 1
            first = at + 1


def _chosen(passage: Passage, heavy: set[int]) -> list[int]:
    """Which tokens are shown: all of them, or the neighbourhoods of those that matter."""
    length = len(passage.tokens)
    if length <= _WHOLE:
        return list(range(length))
    middles = heavy if passage.query is None else heavy | {passage.query}
    is_near = np.zeros(length, np.bool_)
    reached = 0
    for n in sorted(middles):
        first = max(n - _AROUND, 0)
        is_near[reached if first - reached <= _SMALL_GAP else first : n + _AROUND + 1] = True
        reached = n + _AROUND + 1
    if length - reached <= _SMALL_GAP:
        is_near[reached:] = True
    return np.flatnonzero(is_near).tolist()


def _gap(passage: Passage, first: int, last: int, paper: Paper) -> tuple[str, str]:
    """What was left out, and how much of the row it holds."""
    mass = float(np.nansum(passage.weights[first:last]))
    dots = paper.sign("…", "...")
    return f" [{dots} {count(last - first, 'token')}, {mass:.1%} {dots}] ", "dim"


def _piece(passage: Passage, n: int, is_heavy: bool, paper: Paper) -> tuple[str, str]:
    text = flowing(passage.tokens[n], paper)
    share = passage.shares[n]
    is_query = n == passage.query
    if paper.colours == "none":
        is_marked = is_heavy and passage.weights[n] >= _FAINTEST_MARK
        marked = f"{text}({passage.weights[n]:.2f})" if is_marked else text
        return f">{marked}<" if is_query else marked, ""
    if np.isnan(share):
        return text, "dim underline" if is_query else "dim"
    style = shaded(int(codes(share)), paper.colours)
    return text, f"bold underline {style}" if is_query else style


def _place(lines: list[StyledLine], word: StyledLine, width: int) -> None:
    """Behind what is on the last line, or on the next; a word that no line holds is cut."""
    wide = sum(cells(text) for text, _ in word)
    used = sum(cells(text) for text, _ in lines[-1])
    if used and used + wide > width:
        lines.append([])
        used, word = 0, [(word[0][0].lstrip(" "), word[0][1]), *word[1:]]
    for text, style in word:
        for letter in letters(text):
            if used + cells(letter) > width:
                lines.append([])
                used = 0
            used += cells(letter)
            _extend(lines[-1], letter, style)


def _extend(line: StyledLine, letter: str, style: str) -> None:
    if line and line[-1][1] == style:
        line[-1] = line[-1][0] + letter, style
    else:
        line.append((letter, style))
