"""What values are asked and only layers far above them can answer: to show themselves in a
notebook, to be drawn, to become a table; of a finding, which heads give mass to what is hidden.

A value knows the question only (`_repr_html_ = as_html`, `ask("plot_head", …)`). `regard` itself,
which stands on top and is always imported first, says who answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypedDict

_Answer: TypeAlias = Callable[..., Any]
_ANSWERS: dict[str, _Answer] = {}


class Style(TypedDict, total=False):
    """The appearance of a picture."""

    dark: bool  # light on dark
    size: tuple[float, float]  # inches: width, height
    dpi: int  # 160 unless told


def answered_by(**answers: _Answer) -> None:
    """From now on, these questions are answered so."""
    _ANSWERS.update(answers)


def ask(question: str, value: object, *given: Any, **options: Any) -> Any:
    """What is said above about a value."""
    return _ANSWERS[question](value, *given, **options)


def as_html(value: object) -> str | None:
    """A value as HTML; None where nobody paints, so that its text is shown."""
    return ask("html", value) if "html" in _ANSWERS else None
