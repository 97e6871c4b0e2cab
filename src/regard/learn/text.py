"""Tokens as they are shown: printable, short, told apart when a word comes twice."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

__all__ = ["cells", "labels_of", "listed", "padded", "printable", "quoted"]

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_LONGEST = 12


def cells(text: str) -> int:
    """How many terminal cells the text takes; ideographs and emoji take two, accents none."""
    return sum(_cells(letter) for letter in text)


def _cells(letter: str) -> int:
    if unicodedata.combining(letter) or letter in "\u200b\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def padded(text: str, width: int) -> str:
    """The text followed by blanks up to `width` cells."""
    return text + " " * max(width - cells(text), 0)


def printable(text: str) -> str:
    """The text with control characters replaced, so that no token can steer the terminal."""
    # U+200D only joins emoji; the directions and marks of its kind could reorder a line.
    return "".join(c if c.isprintable() or c == "\u200d" else "\ufffd" for c in text)


def _short(text: str) -> str:
    """At most 12 cells, the cut marked."""
    if cells(text) <= _LONGEST:
        return text
    kept = ""
    for letter in text:
        if cells(kept + letter) >= _LONGEST:
            break
        kept += letter
    return kept + "…"


def labels_of(tokens: Sequence[str]) -> tuple[str, ...]:
    """One label per token; the second "the" is "the₂"."""
    seen: Counter[str] = Counter()
    labels = []
    for token in tokens:
        label = _short(printable(token))
        seen[label] += 1
        labels.append(label + (str(seen[label]).translate(_SUBSCRIPTS) if seen[label] > 1 else ""))
    return tuple(labels)


def quoted(text: str) -> str:
    """Words of the user inside a message: printable, cut to a readable length."""
    plain = printable(text)
    return f"'{plain if len(plain) <= 40 else plain[:39] + '…'}'"


def listed(words: Sequence[str], most: int = 12) -> str:
    """'a, b, c', cut after `most` with the number of the rest."""
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")
