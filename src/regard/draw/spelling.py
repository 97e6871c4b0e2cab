"""Tokens and numbers as they may be shown. A token is somebody else's text: what could steer a
terminal (escapes, directions, line ends) is spelt out, never sent.

    "\\n" ⏎    "\\t" →    " cat" ␣cat    "\\x1b[2J" \\x1b[2J        (in ASCII: \\n \\t _cat)
"""

from __future__ import annotations

import math

from rich.cells import cell_len

from regard.draw.paper import Paper

_MOST_LETTERS = 200  # of one token, whatever its width: marks that take no cell could be thousands


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return cell_len(text)


def safe(text: str, paper: Paper) -> str:
    """The text with everything spelt out that could steer a terminal."""
    return "".join(_letter(c, paper) for c in text)


def flowing(token: str, paper: Paper) -> str:
    """The token inside running text: its blanks as they are, all else visible."""
    shown = safe(token[:_MOST_LETTERS], paper)
    return shown + (paper.ellipsis if len(token) > _MOST_LETTERS else "")


def visible(token: str, paper: Paper) -> str:
    """The token on its own: blanks at its ends are shown too, and nothing is '""'."""
    shown = flowing(token, paper)
    if not shown:
        return '""'
    blank = paper.sign("␣", "_")
    body = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    return blank * before + body + blank * (len(shown) - before - len(body) if body else 0)


def label(token: str, width: int, paper: Paper) -> str:
    """The token in at most `width` cells, the cut marked."""
    return fitted(visible(token, paper), width, paper)


def fitted(text: str, width: int, paper: Paper) -> str:
    """The text cut to `width` cells, the cut marked."""
    if cells(text) <= width:
        return text
    kept, used = "", 0
    for one in letters(text):
        used += cells(one)
        if used >= width:
            break
        kept += one
    return kept + paper.ellipsis


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Blanks up to `width` cells, behind the text or (right) before it."""
    blanks = " " * max(width - cells(text), 0)
    return blanks + text if right else text + blanks


def letters(text: str) -> list[str]:
    """The text in pieces of at least one cell: marks stay with the letter they stand on."""
    pieces: list[str] = []
    for letter in text:
        if pieces and cell_len(letter) == 0:
            pieces[-1] += letter
        else:
            pieces.append(letter)
    return pieces


def number(value: float, digits: int = 3) -> str:
    """A few significant digits, without an exponent where it can be: 0.310, 12.4, 3.10e-05."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -4 < size < 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(digits - 1 - size, 0)}f}"


def _letter(letter: str, paper: Paper) -> str:
    if letter == "\n":
        return paper.sign("⏎", "\\n")
    if letter == "\t":
        return paper.sign("→", "\\t")
    if not letter.isprintable():  # controls, directions, surrogates, blanks of odd widths
        return ascii(letter)[1:-1]
    return "?" if paper.is_ascii and not letter.isascii() else letter
