"""What every page can do."""

from __future__ import annotations

from typing import Any, Protocol

from regard.draw.paper import Paper, StyledLine


class Page(Protocol):
    """An answer about a recording: its numbers, and how they look."""

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        ...

    def lines(self, paper: Paper) -> list[StyledLine]:
        """Its lines, for a terminal."""
        ...
