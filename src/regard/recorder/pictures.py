"""The pictures that a model was given, as it saw them: taken from its own pixels, made small,
encoded. What lies over a patch on the page is then what the patch was made of, whatever a
processor cropped, resized or cut into tiles."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import FileError, InputError, MissingExtraError, RegardError
from regard.files import open_file, reason, shown
from regard.hear.hooks import Pass
from regard.recording.format.write import Series
from regard.recording.pictures import PICTURE, SPECTROGRAM, Picture, write_pictures
from regard.recording.schema import tensor_name

_Pixels = NDArray[np.uint8]  # (h, w, 3)
_LARGEST: Final = 1024  # pixels a side that are kept
_SMALL: Final = 128  # up to here a picture is kept without loss
_ROOM: Final = 4 << 20  # bytes of all pictures of a prompt
_MOST: Final = 256  # pictures of a prompt
_QUALITY: Final = 85  # of JPEG
_THUMB: Final = 16  # colours a side by which pictures are compared
_ALIKE: Final = 0.08  # of the range from black to white, in the mean


@dataclass(frozen=True)
class Tone:
    """How a processor normalises: pixel = colour · std + mean, of each channel, in 0 … 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, processor: Any) -> Tone | None:
        """As an image processor, or that inside a processor, says; None where it does not."""
        inner = getattr(processor, "image_processor", processor)
        mean, std = getattr(inner, "image_mean", None), getattr(inner, "image_std", None)
        if mean is None or std is None or not getattr(inner, "do_normalize", True):
            return None
        if getattr(inner, "offset", False):  # from −1 to 1 before that (ViViT)
            return cls(tuple((m + 1) / 2 for m in mean), tuple(s / 2 for s in std))
        return cls(tuple(map(float, mean)), tuple(map(float, std)))


def seen_pictures(pixels: Tensor, tone: Tone | None) -> list[_Pixels]:
    """(…, C, h, w) → each picture as colours; without a tone, from its darkest to its brightest."""
    flat = pixels.detach().reshape(-1, *pixels.shape[-3:])[:_MOST]
    return [_colours(one.float().cpu().numpy(), tone) for one in flat]


def unpatched(
    pixels: Tensor, grids: Sequence[tuple[int, int, int]], merge: int, tone: Tone | None
) -> list[_Pixels]:
    """Patches in one row (Σ t·h·w, C·T·P·P), in blocks of merge × merge → a picture a frame."""
    found, start = [], 0
    for t, h, w in grids:
        stop = start + t * h * w
        if stop > len(pixels) or h % merge or w % merge:
            return []
        for one in _frames(pixels[start:stop].detach().float().cpu(), (t, h, w), merge):
            found.append(_colours(one, tone))
        start = stop
    return found[:_MOST]


def _frames(
    patches: Tensor, grid: tuple[int, int, int], merge: int, colours: int = 3
) -> list[NDArray[np.float32]]:
    """(t·h·w, C·T·P·P) → t pictures (C, h·P, w·P), the first of the T that a patch holds."""
    t, h, w = grid
    inner = patches.shape[1] // colours  # T · P · P, with T of 1 or 2
    depth = next((n for n in (1, 2) if inner % n == 0 and _is_square(inner // n)), 0)
    if not depth:
        return []
    side = round((inner // depth) ** 0.5)
    blocks = patches.reshape(t, h // merge, w // merge, merge, merge, colours, depth, side, side)
    laid = blocks[:, :, :, :, :, :, 0]  # (t, H, W, m, m, C, P, P)
    laid = laid.permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(t, colours, h * side, w * side)
    return [one.numpy() for one in laid]


def _is_square(count: int) -> bool:
    return round(count**0.5) ** 2 == count


def _colours(values: NDArray[np.float32], tone: Tone | None) -> _Pixels:
    """(C, h, w) → (h, w, 3) bytes; a picture of one channel is grey."""
    plain = np.nan_to_num(values.transpose(1, 2, 0))
    if tone is not None and len(tone.mean) == plain.shape[2]:
        plain = plain * np.asarray(tone.std) + np.asarray(tone.mean)
    elif plain.min() < 0 or plain.max() > 1:
        low, high = float(plain.min()), float(plain.max())
        plain = (plain - low) / (high - low or 1.0)
    if plain.shape[2] != 3:
        plain = np.repeat(plain[:, :, :1], 3, axis=2)
    return np.clip(np.rint(plain * 255), 0, 255).astype(np.uint8)


def encoded(
    pictures: Sequence[_Pixels], titles: Sequence[str] = (), *, drawn: bool = False
) -> list[tuple[Picture, bytes]]:
    """Each as PNG or JPEG, all of them within the room of a prompt: the more there are, the smaller
    they become. What is `drawn` and not photographed is kept without loss."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise MissingExtraError("keeping pictures in a recording", "PIL", "vision") from None
    side = _LARGEST
    while True:
        found = [
            _one(Image.fromarray(one), side, titles[n] if n < len(titles) else "", drawn)
            for n, one in enumerate(pictures)
        ]
        if sum(len(data) for _, data in found) <= _ROOM or side <= _SMALL:
            return found
        side //= 2


def _one(image: Any, side: int, title: str, drawn: bool) -> tuple[Picture, bytes]:
    image = image.copy()
    image.thumbnail((side, side))
    small = drawn or max(image.size) <= _SMALL
    data = io.BytesIO()
    if small:
        image.save(data, "PNG", optimize=True)
    else:
        image.save(data, "JPEG", quality=_QUALITY)
    kind = "image/png" if small else "image/jpeg"
    width, height = image.size
    return Picture(width, height, kind, title), data.getvalue()


class Grids(NamedTuple):
    """(t, h, w) of each still picture and of each film, as a model was told (Qwen2-VL's
    `image_grid_thw`). Pictures are counted over the stills, then over the frames of films."""

    images: list[tuple[int, int, int]] = []  # noqa: RUF012 - never added to
    films: list[tuple[int, int, int]] = []  # noqa: RUF012

    @property
    def all(self) -> list[tuple[int, int, int]]:
        """In their order."""
        return [*self.images, *self.films]


class PictureKeeper:
    """Keeps the pictures of the sequences being read.

    images   None: as the model saw them, where Pillow is here to encode them; False: none; else
             the originals in the order the model sees them, kept in their own resolution where they
             show what the model saw
    """

    def __init__(self, images: Any, processor: Any) -> None:
        self._tone = Tone.of(processor)
        self._keeps = find_spec("PIL") is not None if images is None else images is not False
        self._originals = [] if images is None or images is False else opened_images(images)
        self._seen: list[list[_Pixels]] = []  # of each sequence
        self._spectrogram: _Pixels | None = None  # of the sound that is read

    def show(self, images: Any) -> None:
        """Originals of the pictures that come next."""
        if self._keeps:
            self._originals = opened_images(images)

    def hear(self, spectrogram: _Pixels | None) -> None:
        """The picture (h, w) of the sound that comes next."""
        self._spectrogram = spectrogram if self._keeps else None

    def look(self, now: Pass, sequences: int, merge: int) -> None:
        """What a pass was given to see, before it is gone."""
        if not self._keeps:
            return
        if len(self._seen) != sequences:
            self._seen = [[] for _ in range(sequences)]
        told = grids_of(now)
        kinds = ((now.given.pixels, told.images), (now.given.film_pixels, told.films))
        for tensor, grids in ((one(), grids) for held, grids in kinds for one in held):
            if tensor is None:
                continue
            if tensor.ndim == 2 and sequences == 1:
                self._seen[0] += unpatched(tensor, grids or told.all, merge, self._tone)
            elif tensor.ndim >= 4 and len(tensor) == sequences:
                for own, one in zip(self._seen, tensor, strict=True):
                    own += seen_pictures(one, self._tone)

    def written(self, index: int, number: int, frames: int) -> tuple[list[Series], str]:
        """The tensors and the note of one sequence's pictures; nothing where it has none."""
        own = self._seen[index] if index < len(self._seen) else []
        if self._spectrogram is not None:
            kept = encoded([self._spectrogram], [SPECTROGRAM], drawn=True)
        elif own:
            kept = encoded(self._at_their_best(own, frames))
        else:
            return [], ""
        series = [
            Series([tensor_name(number, PICTURE, "bytes", n)], [(len(data),)], _as_words(data))
            for n, (_, data) in enumerate(kept)
        ]
        return series, write_pictures([picture for picture, _ in kept])

    def forget(self) -> None:
        """The sequences are at their end."""
        self._seen, self._spectrogram = [], None

    def _at_their_best(self, seen: list[_Pixels], frames: int) -> list[_Pixels]:
        """The next originals, as far as they show what was seen; else what was seen."""
        own = first_frames(seen, frames)
        every: list[Any] = [*self._originals, *[None] * (len(own) - len(self._originals))]
        if frames > 1:  # all originals are frames of the film
            every, self._originals = first_frames(every, len(own)), []
        else:
            self._originals = every[len(own) :]
        return [one if it is None else alike(it, one) for one, it in zip(own, every, strict=False)]


def grids_of(*passes: Pass) -> Grids:
    """Those that the model was told."""
    return Grids(
        [row for now in passes for grid in now.given.grids for row in _rows(grid)],
        [row for now in passes for grid in now.given.film_grids for row in _rows(grid)],
    )


def _rows(grid: Tensor) -> list[tuple[int, int, int]]:
    rows = grid.reshape(-1, grid.shape[-1]).tolist()
    return [(1, row[0], row[1]) if len(row) == 2 else (row[0], row[1], row[2]) for row in rows]


def opened_images(images: Any) -> list[_Pixels]:
    """Pillow's images, arrays (h, w, 3) and files, as colours."""
    several = images if isinstance(images, list | tuple) else [images]
    return [_opened(one) for one in several]


def _opened(image: Any) -> _Pixels:
    if isinstance(image, str | PathLike):
        return read_picture(Path(image))
    found = _as_colours(image) if hasattr(image, "convert") else np.asarray(image)
    if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8 or not found.size:
        raise InputError(
            f"images: {found.dtype} of the shape {found.shape}; give Pillow images, files, or "
            "arrays of bytes (height, width, 3)"
        )
    return found


def alike(original: _Pixels, seen: _Pixels) -> _Pixels:
    """The part of the original that was seen: all of it, or the square in its middle; what was seen
    itself where neither looks like it."""
    high, wide = original.shape[:2]
    side = min(high, wide)
    top, left = (high - side) // 2, (wide - side) // 2
    parts = (original, original[top : top + side, left : left + side])
    far = [float(np.abs(_thumb(one) - _thumb(seen)).mean()) for one in parts]
    best = int(np.argmin(far))
    return parts[best] if far[best] < _ALIKE else seen


def _thumb(picture: _Pixels) -> NDArray[np.float64]:
    """(16, 16, 3) mean colours in 0 … 1."""
    high, wide = picture.shape[:2]
    rows = np.linspace(0, high, _THUMB + 1).astype(int)
    columns = np.linspace(0, wide, _THUMB + 1).astype(int)
    found = np.empty((_THUMB, _THUMB, 3))
    for r in range(_THUMB):
        for c in range(_THUMB):
            top, left = rows[r], columns[c]
            part = picture[top : max(rows[r + 1], top + 1), left : max(columns[c + 1], left + 1)]
            found[r, c] = part.reshape(-1, 3).mean(0) / 255
    return found


def first_frames(pictures: list[Any], frames: int) -> list[Any]:
    """One picture for each frame of a grid, where a patch reaches over several of a film."""
    step = len(pictures) // max(frames, 1)
    return pictures[::step] if frames > 1 and step and len(pictures) % frames == 0 else pictures


def _as_words(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


# ── files ────────────────────────────────────────────────────────────────────────────────────

_FORMATS: Final = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
_MOST_PIXELS: Final = 1 << 26  # 67 million: 200 MB of colours


def read_picture(path: Path) -> _Pixels:
    """(h, w, 3) of a picture file, turned as its camera was held; one line where it cannot be."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise MissingExtraError("reading a picture", "PIL", "vision") from None
    try:
        with open_file(path) as file, Image.open(file, formats=_FORMATS) as image:
            _check_picture(image, path)
            found = _as_colours(ImageOps.exif_transpose(image))
    except RegardError:
        raise  # it says what is wrong already
    except (UnidentifiedImageError, SyntaxError):
        raise FileError(
            f"{shown(path)}: not a picture that can be read; give PNG, JPEG, WebP, BMP, GIF or TIFF"
        ) from None
    except Image.DecompressionBombError:
        raise FileError(f"{shown(path)}: {_too_many('too many')}") from None
    except (OSError, ValueError, EOFError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None
    return found


def _as_colours(image: Any) -> _Pixels:
    """(h, w, 3); greys of 16 bits by their upper eight, which Pillow would cut off at 255."""
    if image.mode.startswith("I;16"):
        grey = (np.asarray(image).astype(np.uint32) // 257).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    return np.asarray(image.convert("RGB"))


def _check_picture(image: Any, path: Path) -> None:
    """Before its pixels are decoded."""
    wide, high = image.size
    if not wide or not high:
        raise InputError(f"{shown(path)}: a picture of {wide} × {high} pixels")
    if wide * high > _MOST_PIXELS:
        raise FileError(f"{shown(path)}: {_too_many(f'{wide * high:,}')}")
    if image.mode in ("I", "F"):
        raise InputError(
            f"{shown(path)}: numbers of 32 bits, whose black and white it does not say; convert it "
            "to 8 or 16 bits"
        )
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise InputError(f"{shown(path)}: {frames} frames; give a still picture")


def _too_many(pixels: str) -> str:
    return f"it has {pixels} pixels; at most {_MOST_PIXELS:,} are read"
