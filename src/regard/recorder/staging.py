"""A folder of files that is recorded anew: the new files wait in a folder inside it until all of
them are whole, so that a run that fails leaves the old ones as they were."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

PARTIAL: Final = "partial"


def move_in(place: Path, files: Iterable[str], stale: Iterable[Path]) -> None:
    """Files of these names in `place` go up into the folder around it; stale ones that none of
    them replaces are removed, and so is the place."""
    names = set(files)
    for file in stale:
        if file.name not in names:
            file.unlink()
    for name in sorted(names):
        (place / name).replace(place.parent / name)
    for left in place.iterdir():  # of a run that was given up
        left.unlink()
    place.rmdir()
