"""The lesson as a neutral document: sections of prose, arithmetic lines and grids of numbers.

    Document ─ Section* ─ (Prose | Lines | Grids)*

Every piece of text carries a role (query, key, value, weight …) and no colour. The terminal,
Markdown and HTML renderers read this and nothing else, so all three say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias

Role: TypeAlias = Literal["plain", "quiet", "x", "q", "k", "v", "score", "weight", "output"]


@dataclass(frozen=True)
class Span:
    """Text with a role."""

    text: str
    role: Role = "plain"


Line: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True)
class Prose:
    """A sentence or two, to be wrapped by whoever shows it."""

    text: str


@dataclass(frozen=True)
class Lines:
    """Arithmetic, to be shown as it stands, in a fixed-width face."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A matrix with its labels; `shades` (0 to 1) ask for shading."""

    title: str
    role: Role
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[float, ...], ...] | None = None
    remark: str = ""


@dataclass(frozen=True)
class Grids:
    """Matrices that belong together, side by side where there is room."""

    grids: tuple[Grid, ...]


Part: TypeAlias = Prose | Lines | Grids


@dataclass(frozen=True)
class Section:
    """A step: its title, one line of why, and what there is to see."""

    title: str
    why: str
    parts: tuple[Part, ...]
    number: int | None = None  # only the steps of the walk-through are numbered


@dataclass(frozen=True)
class Document:
    """The whole lesson."""

    title: str
    opening: tuple[str, ...]
    sections: tuple[Section, ...]
    scaled: bool = True
    language: str = "en"
    formula: str = ""  # the whole layer in one line

    def __post_init__(self) -> None:
        divided = " / √d_k" if self.scaled else ""
        formula = self.formula or f"Attention(Q, K, V) = softmax(Q Kᵀ{divided}) V"
        object.__setattr__(self, "formula", formula)

    def rewritten(self, change: Callable[[str], str]) -> Document:
        """The same with every text changed, as for a terminal that knows only ASCII."""
        document: Document = _rewritten(self, change)
        return document


def _rewritten(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_rewritten(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _rewritten(getattr(value, f.name), change) for f in fields(value)}
        return replace(value, **parts)
    return value
