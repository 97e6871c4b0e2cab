"""Curves beside a map, as a page carries them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.viewer.packing import Packed
from regard.views.profiles import Track

STEPS: Final = 4095  # of a rounded curve, from 0 to its largest value
_Array: TypeAlias = NDArray[Any]


def pack_tracks(
    packed: Packed, tracks: Mapping[str, Track | None], *, exact: bool
) -> dict[str, dict[str, Any] | None]:
    """Their numbers are packed; what is left goes into JSON. The largest is left out where it is
    the mean itself."""
    return {
        name: None if one is None else _packed(packed, name, one, exact)
        for name, one in tracks.items()
    }


def _packed(packed: Packed, name: str, track: Track, exact: bool) -> dict[str, Any]:
    kinds = {"mean": track.mean}
    if not np.array_equal(track.mean, track.largest, equal_nan=True):
        kinds["largest"] = track.largest
    for kind, values in kinds.items():
        if exact:
            packed.exact(f"{name}/{kind}", values)
        else:
            most = float(np.fmax.reduce(values, initial=0.0))
            packed.rounded(f"{name}/{kind}", values, most / STEPS or 1.0)
    return {"words": track.words, **_edges(track.edges)}


def _edges(edges: _Array) -> dict[str, list[int] | None]:
    """The first and the last where they follow one another, else all of them."""
    first, last = int(edges[0]), int(edges[-1])
    if np.array_equal(edges, np.arange(first, last + 1)):
        return {"span": [first, last], "edges": None}
    return {"span": None, "edges": edges.tolist()}
