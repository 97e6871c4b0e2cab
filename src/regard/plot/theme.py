"""What surrounds the colours: paper, ink and lines, light and dark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    """The colours around the picture. `lines` are Okabe and Ito's, which everybody tells apart."""

    paper: str
    ink: str
    dim: str  # remarks and ticks
    rule: str  # frames and grid lines
    hidden: str  # cells that are masked, or were not recorded
    lines: tuple[str, ...]


LIGHT = Theme(
    "#ffffff", "#16171a", "#5c5f66", "#b4b7bd", "#e2e3e6",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
)  # fmt: skip
DARK = Theme(
    "#15161a", "#eceef2", "#a6a9b0", "#565961", "#3c3c3e",
    ("#56b4e9", "#e69f00", "#2dc79b", "#e39ac3"),
)  # fmt: skip
