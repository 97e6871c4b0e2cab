"""Whether a place's note can be true, and its tensors what the note says. FileError where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from regard.errors import FileError
from regard.recording.contents import Place
from regard.recording.store import Array, Listed

_MOST_LAYERS: Final = 4096  # more than so many of these are not believed
_MOST_HEADS: Final = 2**16
_MOST_BIN: Final = 2**20
_FLOATS: Final = ("F64", "F32", "F16", "BF16")
_WHOLE: Final = ("I64", "I32", "I16", "I8", "U32", "U16", "U8")


def check_place(place: Place) -> None:
    """Sizes that can be, and segments that follow each other inside them."""
    label = place.label
    if place.kind not in ("self", "cross"):
        raise FileError(f"{label}: a place of the kind {place.kind!r:.20}")
    heads = place.heads
    if not (1 <= place.total_heads <= _MOST_HEADS and 1 <= place.key_heads <= place.total_heads):
        raise FileError(f"{label}: {place.total_heads} heads over {place.key_heads} key heads")
    if place.total_heads % place.key_heads or place.layer >= _MOST_LAYERS:
        raise FileError(f"{label}: heads that do not share key heads evenly, or too high a layer")
    if not heads or sorted(set(heads)) != list(heads) or heads[-1] >= place.total_heads:
        raise FileError(f"{label}: heads {heads!r:.40} of {place.total_heads}")
    if place.rows[1] > place.queries:
        raise FileError(f"{label}: rows up to {place.rows[1]} of {place.queries}")
    bins = place.row_bin, place.key_bin, place.top_every
    if not all(1 <= one <= _MOST_BIN for one in bins) or place.pool_cell > 2**31:
        raise FileError(f"{label}: bins of {bins} rows, keys, rows")
    _check_segments(place)


def _check_segments(place: Place) -> None:
    reached = 0
    for one in place.segments:
        if one.rows[0] < reached or one.rows[1] > place.queries or one.keys[1] > place.keys:
            raise FileError(
                f"{place.label}: a segment of rows {one.rows} and keys {one.keys} out of place"
            )
        reached = one.rows[1]


def check_piece(place: Place, what: str, entry: Listed, is_number: bool) -> None:
    """The axes and the kind of number that the page says; `is_number`: it is one a row."""
    heads, shape, floats = len(place.heads), entry.shape, entry.dtype in _FLOATS
    fine = True
    if is_number or what == "received":
        fine = len(shape) == 2 and shape[0] == heads and floats
    elif what in ("top_weights", "top_keys"):
        fine = len(shape) == 3 and shape[0] == heads
        fine = fine and (floats if what == "top_weights" else entry.dtype in _WHOLE)
    elif what == "q":
        fine = len(shape) == 3 and (shape[0], shape[2]) == (heads, place.dim) and floats
    elif what == "k":
        fine = len(shape) == 3 and (shape[0], shape[2]) == (place.key_heads, place.dim) and floats
    elif what == "value_norm":
        fine = len(shape) == 2 and shape[0] == place.key_heads and floats
    elif what in ("heavy_keys", "heavy_received"):
        fine = len(shape) == 2 and shape[0] == heads
        fine = fine and (floats if what == "heavy_received" else entry.dtype in _WHOLE)
    elif what in ("offsets", "totals"):
        fine = len(shape) == 2 and shape[0] == heads and floats
    elif what == "offset_edges":
        fine = len(shape) == 1 and shape[0] >= 1 and entry.dtype in _WHOLE
    elif what == "pooled":
        fine = len(shape) == 3 and shape[0] == heads and floats
    if not fine:
        raise FileError(f"{entry.name!r}: {entry.dtype} {shape} does not fit its place")


def check_columns(place: Place, what: str, entries: Sequence[Listed]) -> None:
    """Tensors of sums are as long as the keys; those of single ranks may be shorter."""
    wanted: tuple[int, ...]
    if what == "received":
        wanted = (len(place.heads), -(-place.keys // place.key_bin))
    else:
        cell = max(place.pool_cell, 1)
        wanted = (len(place.heads), -(-place.queries // cell), -(-place.keys // cell))
    for entry in entries:
        longer = any(n > w for n, w in zip(entry.shape, wanted, strict=True))
        if longer or (len(entries) == 1 and entry.shape != wanted):
            raise FileError(f"{entry.name!r}: shape {entry.shape} does not fit its place")


def check_heavy(place: Place, keys: Array, masses: Array) -> None:
    """(H, m) each: different keys of the place, and what they got."""
    ordered = np.sort(keys, axis=1)
    fine = keys.shape == masses.shape and bool(((keys >= 0) & (keys < place.keys)).all())
    fine = fine and not (ordered[:, 1:] == ordered[:, :-1]).any()
    if not fine or not (masses >= 0).all() or not np.isfinite(masses).all():
        raise FileError(f"{place.label}: heavy_keys that are none of its keys, or without masses")
