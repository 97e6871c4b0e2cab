"""Pictures that a prompt was read from, as the recording holds them: small, encoded, not decoded
here. What a note says of them is doubted before they are shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from regard.errors import FileError
from regard.recording.pieces import Sorted
from regard.recording.stores import Store

PICTURES_NOTE: Final = "pictures/"  # of prompt 0: `pictures/0`
SPECTROGRAM: Final = "spectrogram"  # the title of a sound's picture
PICTURE: Final = "picture"  # tensors P0/picture/bytes/0, /1 …
MOST_SIDE: Final = 8192  # pixels that are believed
MOST_BYTES: Final = 2**24  # of one picture
MOST_PICTURES: Final = 4096

# What a browser may be handed, by the bytes it begins with.
TYPES: Final = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG\r\n\x1a\n"}


@dataclass(frozen=True)
class Picture:
    """One picture, or one frame of a film."""

    width: int
    height: int
    type: str  # of TYPES
    title: str = ""
    seconds: float | None = None  # when it is seen, of a film's frame

    def to_dict(self) -> dict[str, Any]:
        """As the note has it."""
        return dict(vars(self))


def write_pictures(pictures: list[Picture]) -> str:
    """The note."""
    return json.dumps([one.to_dict() for one in pictures], separators=(",", ":"))


def read_pictures(text: str) -> tuple[Picture, ...]:
    """The note read back; FileError where a picture cannot be."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FileError("pictures whose note is no JSON") from None
    if not isinstance(value, list) or len(value) > MOST_PICTURES:
        raise FileError("pictures whose note is no list, or too long a one")
    return tuple(_picture(n, one) for n, one in enumerate(value))


def _picture(number: int, value: Any) -> Picture:
    given = value if isinstance(value, dict) else {}
    width, height = given.get("width", 0), given.get("height", 0)
    fine = all(type(side) is int and 0 < side <= MOST_SIDE for side in (width, height))
    kind, title, seconds = given.get("type"), given.get("title", ""), given.get("seconds")
    timed = seconds is None or (isinstance(seconds, int | float) and 0 <= seconds < 1e9)
    known = isinstance(kind, str) and kind in TYPES
    if not fine or not known or not isinstance(title, str) or not timed:
        raise FileError(f"the note of picture {number} cannot be true: its size, type or title")
    return Picture(width, height, str(kind), title, seconds)


def picture_bytes(store: Store, pieces: Sorted, prompt: int, number: int, kind: str) -> bytes:
    """The encoded picture; FileError where the file does not hold one of its kind."""
    entries = pieces.get((prompt, PICTURE), {}).get("bytes", {}).get(number)
    if not entries:
        raise FileError(f"picture {number} of prompt {prompt} is not in the recording")
    entry = entries[0]
    if entry.dtype != "U8" or len(entry.shape) != 1 or entry.shape[0] > MOST_BYTES:
        raise FileError(f"{entry.name!r}: no picture of at most {MOST_BYTES >> 20} MiB")
    found = bytes(store.array(entry.name))
    if not found.startswith(TYPES[kind]):
        raise FileError(f"{entry.name!r}: does not begin as {kind} does")
    return found
