"""How values show themselves in a notebook.

A notebook asks a value for `_repr_html_`. What is shown is the page, and the page is made far above
the values in the layers. So a value knows this hook only (`_repr_html_ = as_html`), and `regard`
itself, which stands on top and is always imported first, says who answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

_Painter: TypeAlias = Callable[[object], str]
_PAINTERS: list[_Painter] = []


def shown_by(painter: _Painter) -> None:
    """From now on, values are shown by this one."""
    _PAINTERS[:] = [painter]


def as_html(value: object) -> str | None:
    """A value as HTML; None where nobody paints, so that its text is shown."""
    return _PAINTERS[0](value) if _PAINTERS else None
