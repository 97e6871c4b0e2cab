"""Lines of (text, style) pieces, and how they reach a console that may know only ASCII."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Line", "ascii_only", "in_ascii", "print_lines", "prose"]

Line: TypeAlias = list[tuple[str, str]]

_ASCII = {
    "÷√d": "div", "√": "sqrt ", "÷": "/", "·": "*", "−": "-", "–": "-", "∂": "d", "×": "x",
    "ᵀ": "^T", "…": "...", "✓": "+", "✗": "x", "₁": "1", "₂": "2", "→": "->", "≤": "<=",
}  # fmt: skip


def ascii_only(console: Console) -> bool:
    """Whether the console cannot be trusted with more: another encoding, or a dumb terminal."""
    return "utf" not in console.encoding.lower() or os.environ.get("TERM") == "dumb"


def in_ascii(text: str) -> str:
    """The text in plain ASCII: mathematical signs spelt out, the rest replaced by '?'."""
    for sign, plain in _ASCII.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode("ascii")


def prose(text: str) -> list[Line]:
    """Wrapped a little below 80 columns, so that √ may become sqrt."""
    return [[(line, "")] for line in textwrap.wrap(text, 76)]


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Write the lines; nothing in them is taken for markup."""
    from rich.text import Text

    plain = ascii_only(console)
    for line in lines:
        text = Text()
        for piece, style in line:
            text.append(in_ascii(piece) if plain else piece, style)
        text.rstrip()
        console.print(text)
