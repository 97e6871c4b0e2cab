"""Pictures in a page that is one file: as the recording has them, as many as there is room for."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import FileError
from regard.recording import PromptView
from regard.viewer.packing import deflated
from regard.views.text import count


@dataclass(frozen=True)
class CarriedPictures:
    """Blobs, and by picture which of them it is; None where it is not carried."""

    blobs: list[bytes]
    places: list[int | None]

    def numbered(self, first: int) -> list[int | None]:
        """Numbers of blobs that begin at `first`."""
        return [None if one is None else first + one for one in self.places]

    @property
    def words(self) -> list[str]:
        """What a reader must know."""
        missing = sum(one is None for one in self.places)
        if not missing:
            return []
        return [f"{count(missing, 'picture')} did not fit; patches are drawn without."]


def carry_pictures(view: PromptView, room: int) -> CarriedPictures:
    """The first ones that fit into so many bytes; one that cannot be read is left out."""
    blobs: list[bytes] = []
    places: list[int | None] = []
    for number in range(len(view.pictures)):
        blob = _blob(view, number)
        fits = blob is not None and len(blob) <= room
        places.append(len(blobs) if fits else None)
        if blob is not None and fits:
            blobs.append(blob)
            room -= len(blob)
    return CarriedPictures(blobs, places)


def _blob(view: PromptView, number: int) -> bytes | None:
    try:
        return deflated(view.picture(number))
    except FileError:
        return None
