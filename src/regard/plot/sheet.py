"""The sheet that every picture stands on: a title above, what the picture means below, its colours,
and the file it ends in; the same figure gives the same bytes.

Lengths are inches. matplotlib is loaded when a sheet is opened, and none of its global state is
touched: no pyplot, no backend, and the settings are back as they were when the sheet is done.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from regard.display import Style
from regard.errors import InputError, MissingExtraError
from regard.plot.lettering import cut, families, first_fitting, flowing, safe, width, wrapped
from regard.views.text import CAVEAT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

_INCHES: Final = (2.5, 60.0)
_DPI: Final = (30, 1200)
_MOST_PIXELS: Final = 2**15  # a side
_EDGE: Final = 0.18  # kept free all around
_LINE: Final = 1.45  # of a text's size
_QUOTED: Final = 60  # tokens of the prompt that are looked at for the second line


@dataclass(frozen=True)
class About:
    """Where a picture comes from."""

    model: str
    text: Sequence[str] = ()  # the prompt's tokens
    title: str = ""  # of the prompt, where its tokens are not known
    prompt: int = 0


class Box(NamedTuple):
    """A part of the sheet, counted from its lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


@contextmanager
def settings() -> Iterator[None]:
    """matplotlib as it comes, with our fonts, for a while; then as it was."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingExtraError("a picture", "matplotlib", "plot") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["font.family"] = list(families())
        matplotlib.rcParams["text.parse_math"] = False  # a dollar sign is a dollar sign
        matplotlib.rcParams["svg.fonttype"] = "path"  # texts look alike without the font
        matplotlib.rcParams["svg.hashsalt"] = "regard"  # the same picture has the same bytes
        yield


@contextmanager
def opened(style: Style, size: tuple[float, float]) -> Iterator[Sheet]:
    """An empty sheet; `size` is the usual one."""
    with settings():
        sheet = Sheet(style.get("size", size), style.get("dpi", 160), style.get("dark", False))
        yield sheet
        sheet.figure.draw_without_rendering()  # ticks come into being here, with our settings
        # IPython asks for it where no pyplot has told it how figures are shown.
        sheet.figure.__dict__["_repr_png_"] = partial(as_png, sheet.figure)


def as_png(figure: Figure) -> bytes:
    """The picture as a notebook shows it."""
    stream = io.BytesIO()
    with settings():
        figure.savefig(stream, format="png", dpi="figure")
    return stream.getvalue()


class Sheet:
    """A figure, and which part of it is still free."""

    def __init__(self, size: tuple[float, float], dpi: int, dark: bool) -> None:
        from matplotlib.figure import Figure

        _check_size(size, dpi)
        self.theme = DARK if dark else LIGHT
        self.size, self.dpi = size, dpi
        self.figure = Figure(figsize=size, dpi=dpi, facecolor=self.theme.paper)
        self.base = 9.0 if min(size) >= 4.5 else 7.0  # points
        self.free = Box(_EDGE, _EDGE, size[0] - 2 * _EDGE, size[1] - 2 * _EDGE)

    # ── words ────────────────────────────────────────────────────────────────────────────────

    def write_words(self, about: About, what: str, notes: Sequence[str]) -> None:
        """Where the picture comes from, what it shows, and what it means."""
        title = safe(f"{about.model} · {what}")
        said = [*map(safe, notes), CAVEAT]
        self._write_head(title, about)
        self._write_foot(said)
        self.figure.set_label("\n".join([title, *said]))  # the picture in words: see `files`

    def _write_head(self, title: str, about: About) -> None:
        """Model and what is shown, large; the beginning of the prompt below."""
        room = 72 * self.free.width
        sizes = (self.base + 3, self.base + 2, self.base + 1, self.base)
        fitting = (size for size in sizes if width(title, size, bold=True) <= room)
        self._write_top(title, next(fitting, self.base), self.theme.ink, "bold")
        said = "".join(map(flowing, about.text[:_QUOTED])) or flowing(about.title)
        which = f"prompt {about.prompt}: " if about.prompt else ""
        if said:
            more = "…" if len(about.text) > _QUOTED else ""
            self._write_top(f"{which}{said.strip()}{more}", self.base, self.theme.dim)
        self._take(top=0.08)

    def _write_top(self, text: str, size: float, colour: str, weight: str = "normal") -> None:
        fitting = cut(text, 72 * self.free.width, size, bold=weight == "bold")
        top = self.free.bottom + self.free.height
        self.write(fitting, self.free.left, top, size=size, color=colour, weight=weight, va="top")
        self._take(top=_LINE * size / 72)

    def _write_foot(self, notes: Sequence[str]) -> None:
        """What the picture means, small, the last note at the very bottom."""
        size = self.base - 1.5
        lines = [line for note in notes for line in wrapped(note, 72 * self.free.width, size)]
        for line in reversed(lines):
            self.write(
                line, self.free.left, self.free.bottom, size=size, color=self.theme.dim, va="bottom"
            )
            self._take(bottom=_LINE * size / 72)
        self._take(bottom=0.06)

    def write(self, text: str, left: float, bottom: float, **look: Any) -> None:
        """A text at a place of the sheet."""
        at = left / self.size[0], bottom / self.size[1]
        self.figure.text(*at, text, **look)

    # ── places ───────────────────────────────────────────────────────────────────────────────

    def _take(self, *, top: float = 0.0, bottom: float = 0.0) -> None:
        free = self.free
        high = free.height - top - bottom
        self.free = free._replace(bottom=free.bottom + bottom, height=max(high, 0.3))

    def axes(self, box: Box) -> Axes:
        """Axes in that place, in the sheet's colours."""
        wide, high = self.size
        place = (box.left / wide, box.bottom / high, box.width / wide, box.height / high)
        axes = self.figure.add_axes(place, facecolor=self.theme.paper)
        axes.tick_params(
            color=self.theme.rule, labelcolor=self.theme.dim, labelsize=self.base - 1, length=2.5,
            width=0.6, pad=2,
        )  # fmt: skip
        for spine in axes.spines.values():
            spine.set(color=self.theme.rule, linewidth=0.6)
        return axes

    def name_axes(
        self, box: Box, below: Sequence[str], left: Sequence[str], room: tuple[float, float]
    ) -> None:
        """What the axes of a box count, in the first words that fit; `room` is what their ticks
        take, left and below."""
        size = self.base - 1
        look = {"size": size, "color": self.theme.dim}
        middle = box.left + box.width / 2, box.bottom + box.height / 2
        across = first_fitting(below, 72 * (box.width + room[0]), size)
        upwards = first_fitting(left, 72 * box.height, size)
        self.write(across, middle[0], box.bottom - room[1], ha="center", va="top", **look)
        self.write(
            upwards, box.left - room[0], middle[1], ha="right", va="center", rotation=90, **look
        )

    def inside(self, place: Box, longest: str) -> tuple[Box, tuple[float, float]]:
        """The place without what names of axes and their ticks take, left and below; and what the
        ticks alone take. `longest` is the widest tick at the left."""
        size = self.base - 1
        name, room = self.base * 1.3 / 72, (self.widest([longest], size) + 0.12, size / 72 + 0.1)
        left, low = name + room[0], name + room[1]
        wide, high = place.width - left, place.height - low
        return Box(place.left + left, place.bottom + low, wide, high), room

    def widest(self, texts: Sequence[str], size: float) -> float:
        """The inches that the longest of the texts takes."""
        return max((width(text, size) for text in texts), default=0.0) / 72


def _check_size(size: tuple[float, float], dpi: int) -> None:
    """InputError where no picture comes of it."""
    given = f"a picture of {size[0]:g} × {size[1]:g} inches at {dpi} dpi"
    if not all(_INCHES[0] <= side <= _INCHES[1] for side in size):
        raise InputError(f"{given}; give sides of {_INCHES[0]:g}–{_INCHES[1]:g} inches")
    if not _DPI[0] <= dpi <= _DPI[1]:
        raise InputError(f"{given}; give {_DPI[0]}–{_DPI[1]} dpi")
    if max(size) * dpi > _MOST_PIXELS:
        raise InputError(f"{given}; a side may have {_MOST_PIXELS:,} pixels: give fewer dpi")


FORMATS: Final = ("png", "svg")


def format_of(path: Path) -> str:
    """By the end of the name; InputError where it is no format of ours."""
    found = path.suffix.lower().removeprefix(".")
    if found not in FORMATS:
        names = " or ".join(f"{path.stem or 'picture'}.{one}" for one in FORMATS)
        raise InputError(f"{path.name!r} is not the name of a picture; give {names}")
    return found


def write_picture(figure: Figure, path: Path, kind: str) -> None:
    """Write it, whatever the file is called. What it says at its foot is in it as text, too."""
    title, _, meaning = str(figure.get_label()).partition("\n")
    words = {"Title": title, "Description": meaning}
    # nothing of when and with which version: that would differ from run to run
    unsaid = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with settings():
        figure.savefig(path, format=kind, dpi="figure", metadata={**words, **unsaid})
