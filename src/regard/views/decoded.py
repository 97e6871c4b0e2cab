"""A recording's pictures as colours, where Pillow is here to decode them; never larger than their
note says they are."""

from __future__ import annotations

import io
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError
from regard.recording import PromptView

_MOST: Final = 2**24  # pixels that are decoded
_FORMATS: Final = {"image/png": "PNG", "image/jpeg": "JPEG"}


class Decoded(NamedTuple):
    """A picture, or why there is none."""

    pixels: NDArray[np.uint8] | None  # (height, width, 3)
    why_not: str = ""


def decoded(prompt: PromptView, number: int) -> Decoded:
    """The picture with this number; in words, where it cannot be shown."""
    if not 0 <= number < len(prompt.pictures):
        return Decoded(None, "the recording holds no picture of it")
    noted = prompt.pictures[number]
    if noted.width * noted.height > _MOST:
        return Decoded(None, f"a picture of {noted.width} × {noted.height} pixels is not decoded")
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return Decoded(None, "the picture itself needs Pillow: pip install 'regard[vision]'")
    try:
        with Image.open(
            io.BytesIO(prompt.picture(number)), formats=[_FORMATS[noted.type]]
        ) as image:
            return _colours(image, noted.width, noted.height)
    except FileError as error:
        return Decoded(None, str(error))
    except (OSError, ValueError, EOFError, SyntaxError, Image.DecompressionBombError):
        return Decoded(None, f"picture {number} cannot be decoded")


def _colours(image: Any, width: int, height: int) -> Decoded:
    """Before its pixels are decoded, its size is doubted."""
    if image.size != (width, height):
        return Decoded(None, "the picture is of another size than its note says")
    return Decoded(np.asarray(image.convert("RGB")))
