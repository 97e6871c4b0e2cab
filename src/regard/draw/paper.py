"""What is drawn on: how wide it is, and which colours and signs it can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from regard.draw.palette import Colours

if TYPE_CHECKING:
    from rich.console import Console

StyledLine: TypeAlias = list[tuple[str, str]]  # pieces of (text, style)

_PIPE_LINES = 46  # a map in a pipe meets no lower edge; about a page


@dataclass(frozen=True)
class Paper:
    """A terminal or a page of text. Without colours, shades are signs of more or less ink."""

    width: int = 80
    height: int = _PIPE_LINES
    colours: Colours = "none"
    is_ascii: bool = False

    def sign(self, sign: str, in_ascii: str) -> str:
        """The sign, or what stands for it where only ASCII is safe."""
        return in_ascii if self.is_ascii else sign

    @property
    def hidden(self) -> str:
        """The sign of a masked cell, or of one that was not recorded."""
        return self.sign("·", ".")

    @property
    def dash(self) -> str:
        """From … to."""
        return self.sign("–", "-")

    @property
    def dot(self) -> str:
        """Between two remarks on one line."""
        return self.sign(" · ", ", ")

    @property
    def ellipsis(self) -> str:
        """One cell that says something was cut."""
        return self.sign("…", "~")

    @property
    def times(self) -> str:
        """Multiplied by."""
        return self.sign("×", "x")


def paper_of(console: Console, *, is_ascii: bool) -> Paper:
    """The paper that a console is. A palette needs 256 colours; fewer count as none."""
    known: dict[str | None, Colours] = {"256": "256", "truecolor": "true"}
    has_colours = console.is_terminal and not console.no_color and not is_ascii
    return Paper(
        width=max(console.width, 20),
        height=console.height if console.is_terminal else _PIPE_LINES,
        colours=known.get(console.color_system, "none") if has_colours else "none",
        is_ascii=is_ascii,
    )


def plain(lines: list[StyledLine]) -> list[str]:
    """The lines without their styles."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]
