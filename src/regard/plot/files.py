"""Pictures as files: the same figure gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from regard.errors import InputError
from regard.plot.sheet import settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
