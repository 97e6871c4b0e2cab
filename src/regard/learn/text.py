"""Words and numbers as text, wherever they are shown; files of text, as learners write them.

Words are printable, short, and told apart when one comes twice. Numbers have at most four
decimals, no more than their group needs, and one sign for −∞.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from regard.errors import InputError
from regard.files import open_file, reason, shown

HIDDEN = "·"
_DECIMALS = 4
_HUGE = 1e4  # beyond it four decimals only make lines long
_SHOWN = 8  # entries of a vector before its middle is left out

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_LONGEST = 12  # cells of a label


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


def right_aligned(text: str, width: int) -> str:
    """The text after blanks, `width` cells in all."""
    return " " * max(width - cells(text), 0) + text


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
    again: Counter[str] = Counter()
    labels: dict[str, None] = {}
    for token in tokens:
        plain = label = _short(printable(token))
        while label in labels:  # more than once, where a word is itself spelt "the₂"
            again[plain] += 1
            label = plain + str(again[plain] + 1).translate(_SUBSCRIPTS)
        labels[label] = None
    return tuple(labels)


def quoted(text: str) -> str:
    """Words of the user inside a message: printable, cut to a readable length."""
    plain = printable(text)
    return f"'{plain if len(plain) <= 40 else plain[:39] + '…'}'"


def listed(words: Sequence[str], most: int = 12) -> str:
    """'a, b, c', cut after `most` with the number of the rest."""
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")


def figures(values: ArrayLike) -> list[str]:
    """One text per number, all with the same decimals: none where all are whole, at most four."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    if finite.size and np.abs(finite).max() >= _HUGE:
        return [HIDDEN if n == -np.inf else f"{n:.4g}" for n in numbers]
    places = _places(finite)
    # Adding zero turns −0 into 0.
    return [HIDDEN if n == -np.inf else f"{np.round(n, places) + 0.0:.{places}f}" for n in numbers]


def _places(finite: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    full = np.round(finite, _DECIMALS)
    return next(n for n in range(_DECIMALS + 1) if (np.round(finite, n) == full).all())


def figure(value: float) -> str:
    """One number alone."""
    return figures([value])[0]


def column(values: ArrayLike) -> list[str]:
    """The same as `figures`, right-aligned to one width."""
    texts = figures(values)
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]


def factor(text: str) -> str:
    """A number inside a product: in brackets where it is negative."""
    return f"({text})" if text.startswith("-") else text


def bracketed(texts: Sequence[str], most: int = _SHOWN) -> str:
    """[1 0 1 0]; the middle of a long vector is left out."""
    kept = short_indices(len(texts), most)
    shown = [texts[i] for i in kept]
    if len(kept) < len(texts):
        shown.insert(len(kept) - 1, "…")
    return f"[{' '.join(shown)}]"


def short_indices(count: int, most: int = _SHOWN) -> list[int]:
    """All indices up to `most`; beyond that the first few and the last one."""
    return list(range(count)) if count <= most else [*range(max(most - 3, 1)), count - 1]


def page_lines(text: str, width: int = 92) -> list[str]:
    """Lines of a page; (2, 3) and `code` are not broken. Chinese has no spaces to break at and
    stays in one line."""
    if cells(text) > 1.3 * len(text):
        return [text]
    kept = re.sub(r"\([^()]{1,30}\)|`[^`]+`", lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(kept, width, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


StyledLine: TypeAlias = list[tuple[str, str]]  # pieces of (text, style)


def prose(text: str) -> list[StyledLine]:
    """Wrapped a little below 80 columns, so that √ may become sqrt."""
    return [[(line, "")] for line in wrapped(text, 76)]


_NEVER_FIRST = frozenset("，。；：、！？）】」』》”’…,.;:!?)]}%")
_NEVER_LAST = frozenset("（【「『《“‘([{")


def wrapped(text: str, width: int, *, break_long_words: bool = True) -> list[str]:
    """Lines of at most `width` cells. Ideographs break anywhere but before a closing mark and
    after an opening one; text without them as `textwrap` has it, hyphens left whole."""
    if cells(text) == len(text):
        return textwrap.wrap(
            text, width, break_long_words=break_long_words, break_on_hyphens=break_long_words
        )
    lines, current = [], ""
    for piece in _pieces(text):
        if current and cells(current + piece.rstrip()) > width:
            lines.append(current.rstrip())
            current = piece.lstrip()
        else:
            current += piece
    return [*lines, current.rstrip()] if current.strip() else lines


def _pieces(text: str) -> list[str]:
    """What a line is not broken inside of: words, ideographs, each with its marks."""
    pieces: list[str] = []
    for letter in text:
        if pieces and not _may_part(pieces[-1][-1], letter):
            pieces[-1] += letter
        else:
            pieces.append(letter)
    return pieces


def _may_part(left: str, right: str) -> bool:
    if right in _NEVER_FIRST or left in _NEVER_LAST or right == " ":
        return False
    return left == " " or _cells(left) == 2 or _cells(right) == 2


def read_text(path: Path, *, mib: int, wanted: str) -> str:
    """The text of a file of at most `mib` MiB; an error says what was `wanted`."""
    try:
        with open_file(path) as file:
            content = file.read((mib << 20) + 1)
        if len(content) <= mib << 20:
            return content.decode("utf-8-sig")
        problem = f"more than {mib} MiB"
    except UnicodeDecodeError:
        problem = "not UTF-8 text"
    except FileNotFoundError:
        problem = "no such file"
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({reason(error)})"
    raise InputError(f"{shown(path)}: {problem}; give {wanted}")
