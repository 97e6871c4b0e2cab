"""Tokens and sentences as they may stand in a picture, and how wide they are.

"\\n" ⏎    "\\t" →    " cat" ␣cat    "\\x1b" \\x1b    and \\u732b where no font has the letter
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

_MAIN: Final = "DejaVu Sans"  # comes with matplotlib, so that pictures are alike everywhere
# Asked in this order for letters that it lacks, where they are installed.
_OTHERS: Final = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
    "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Noto Sans Devanagari", "Arial Unicode MS",
    "Noto Sans Symbols2",
)  # fmt: skip
_MOST_LETTERS: Final = 200  # of one token
_SIGNS: Final = {"\n": "⏎", "\t": "→"}


@cache
def families() -> tuple[str, ...]:
    """The fonts that letters are looked up in."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return (_MAIN, *(name for name in _OTHERS if name in installed))


@cache
def width(text: str, size: float, *, bold: bool = False) -> float:
    """In points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=list(families()), size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]


def safe(text: str) -> str:
    """The text with everything spelt out that cannot be drawn."""
    return "".join(map(_letter, text))


def flowing(token: str) -> str:
    """The token inside running text: its blanks as they are, all else visible."""
    shown = safe(token[:_MOST_LETTERS])
    return shown + ("…" if len(token) > _MOST_LETTERS else "")


def visible(token: str) -> str:
    """The token on its own: blanks at its ends are shown too, and nothing is '""'."""
    shown = flowing(token)
    if not shown:
        return '""'
    body = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    return "␣" * before + body + "␣" * (len(shown) - before - len(body) if body else 0)


def cut(text: str, points: float, size: float, *, bold: bool = False) -> str:
    """The text, or its beginning, in so many points; the cut is marked."""
    if width(text, size, bold=bold) <= points:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        fits = width(text[:middle].rstrip() + "…", size, bold=bold) <= points
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low].rstrip() + "…"


def first_fitting(texts: Sequence[str], points: float, size: float) -> str:
    """The first of several wordings that so many points hold; the last one cut where none does."""
    fitting = (text for text in texts if width(text, size) <= points)
    return next(fitting, None) or cut(texts[-1], points, size)


def wrapped(text: str, points: float, size: float) -> list[str]:
    """The sentence over as many lines as it takes, each cut where one word is too long."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, size) <= points:
            lines[-1] = longer
        else:
            lines.append(word)
    return [cut(line, points, size) for line in lines]


def _letter(letter: str) -> str:
    sign = _SIGNS.get(letter, letter)
    return sign if sign == " " or (sign.isprintable() and _is_drawn(sign)) else ascii(letter)[1:-1]


@cache
def _is_drawn(letter: str) -> bool:
    return any(font.get_char_index(ord(letter)) for font in _fonts())


@cache
def _fonts() -> tuple[FT2Font, ...]:
    from matplotlib.font_manager import findfont, get_font

    return tuple(get_font(findfont(name)) for name in families())
