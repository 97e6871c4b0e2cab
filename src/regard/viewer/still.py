"""A recording as one picture, for where no script runs: a PNG made with numpy alone."""

from __future__ import annotations

import struct
import zlib
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour import Scale, palette, times_uniform_of
from regard.colour import codes as shade_codes
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.views.pixels import TILE
from regard.views.tiles import levels_of
from regard.views.uniform import HIDDEN, times_of_codes

_WIDE: Final = 640  # pixels that a small picture is enlarged to, at most
_LARGEST: Final = 8  # pixels a side that a pixel of a small picture becomes, at most
_MOST_CELLS: Final = 2**26  # of a head that are computed for its picture: a second or two
_GAP: Final = 2  # pixels between two heads
_DEPTH, _INDEXED = 8, 3
_Codes: TypeAlias = NDArray[np.uint8]


def picture_of(opened: Opened, prompt: int = 0, head: str | None = None) -> bytes | None:
    """A head's map; without a head the maps of all, a row a layer. None where none is stored and
    computing one would take long."""
    codes = _map(opened, prompt, head) if head else _sheet(opened, prompt)
    if codes is None:
        return None
    return png_of(_enlarged(codes), colours_of(opened, prompt, head))


def colours_of(opened: Opened, prompt: int = 0, head: str | None = None) -> Scale:
    """The scale of that picture."""
    view = opened.prompt(prompt)
    keys = view[head].shape[1] if head else max(one.keys for one in view.places.values())
    return times_uniform_of(keys)


def _map(opened: Opened, prompt: int, label: str) -> _Codes | None:
    """(rows, keys) pixels of the coarsest level, cut where that is more than a tile."""
    own, levels = opened.head_map(prompt, label), levels_of(opened.head(prompt, label))
    if not levels:
        return None
    rows, keys = (min(n, TILE) for n in own.size(levels[-1]))
    at = levels[-1], 0, 0
    is_quick = rows * keys * levels[-1] ** 2 <= _MOST_CELLS
    made = own.tile(*at) if is_quick else own.ready_tile(*at)
    return None if made is None else made.codes[:rows, :keys]


def _sheet(opened: Opened, prompt: int) -> _Codes | None:
    """(rows, columns): the thumbnails of every stack, one stack below the other."""
    parts = [
        _spread(answers.thumbnails(opened, prompt, stack).codes)
        for stack in opened.prompt(prompt).stacks
    ]
    if not parts:
        return None
    wide = max(one.shape[1] for one in parts)
    return np.concatenate([np.pad(one, ((0, 0), (0, wide - one.shape[1]))) for one in parts])


def _spread(codes: _Codes) -> _Codes:
    """(layers, heads, side, side) → one sheet, a gap behind every head."""
    padded = np.pad(codes, ((0, 0), (0, 0), (0, _GAP), (0, _GAP)), constant_values=HIDDEN)
    layers, heads, tall, wide = padded.shape
    return padded.transpose(0, 2, 1, 3).reshape(layers * tall, heads * wide)


def _enlarged(codes: _Codes) -> _Codes:
    times = max(1, min(_LARGEST, _WIDE // max(codes.shape)))
    return codes.repeat(times, axis=0).repeat(times, axis=1)


def png_of(codes: _Codes, scale: Scale) -> bytes:
    """(rows, columns) codes of a tile as a PNG in the palette's colours; hidden is transparent."""
    rows, columns = codes.shape
    header = struct.pack(">IIBBBBB", columns, rows, _DEPTH, _INDEXED, 0, 0, 0)
    shades = palette()[shade_codes(scale.shares(times_of_codes()))]
    colours = np.concatenate([np.zeros((1, 3), np.uint8), shades])  # the code 0 is hidden
    lines = np.pad(codes, ((0, 0), (1, 0)))  # each begins with its filter: none
    parts = (("IHDR", header), ("PLTE", colours.tobytes()), ("tRNS", b"\0"),
             ("IDAT", zlib.compress(lines.tobytes(), 9)), ("IEND", b""))  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name.encode(), data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
