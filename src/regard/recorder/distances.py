"""The offset profile: mass by distance, every distance apart or in bins that grow with it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.recorder.bins import grown
from regard.recorder.plan import EXACT_DISTANCES

_Array = NDArray[Any]


class Profile:
    """Sums by distance d = query position − key, d ≥ 0 and d < 0 kept apart so that both grow."""

    def __init__(self, heads: int, per_doubling: int) -> None:
        self._edges = _edges(per_doubling) if per_doubling else None
        self._behind = np.zeros((heads, 0))  # bins of d = 0, 1, 2 …
        self._ahead = np.zeros((heads, 0))  # bins of −d = 1, 2, 3 …

    def add(self, sums: _Array, shift: int) -> None:
        """(H, n) diagonals in the order of j − i; entry e has distance shift − e."""
        count = sums.shape[1]
        split = min(max(shift + 1, 0), count)  # entries before it have d ≥ 0
        behind, ahead = sums[:, :split][:, ::-1], sums[:, split:]
        self._behind = _added(self._behind, behind, shift - split + 1, self._edges)
        self._ahead = _added(self._ahead, ahead, split - shift - 1, self._edges)

    def finish(self) -> tuple[_Array, _Array]:
        """(H, bins) and the edges of the bins: bin b holds edges[b] … edges[b+1] − 1."""
        ahead = np.trim_zeros(self._ahead.any(axis=0).astype(int), "b").size
        ahead = max(ahead, min(EXACT_DISTANCES, self._ahead.shape[1]))
        behind = self._behind.shape[1]
        edges = self._edges if self._edges is not None else np.arange(max(ahead, behind) + 1)
        # bin b of `ahead` holds 1 + edges[b] … edges[b+1] tokens ahead: −edges[b+1] … −1 − edges[b]
        left = -edges[: ahead + 1][::-1]
        right = edges[1 : behind + 1]
        profile = np.concatenate([self._ahead[:, :ahead][:, ::-1], self._behind], axis=1)
        return profile.astype(np.float32), np.concatenate([left, right]).astype(np.int32)


def _added(to: _Array, sums: _Array, first: int, edges: _Array | None) -> _Array:
    """The bins with these distances (first, first + 1 …) added."""
    if sums.shape[1] == 0:
        return to
    if edges is None:
        to = grown(to, to.shape[0], first + sums.shape[1])
        to[:, first : first + sums.shape[1]] += sums
        return to
    places = np.searchsorted(edges, np.arange(first, first + sums.shape[1]), side="right") - 1
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    to = grown(to, to.shape[0], int(places[-1]) + 1)
    to[:, places[starts]] += np.add.reduceat(sums, starts, axis=1)
    return to


@lru_cache(maxsize=8)
def _edges(per_doubling: int) -> _Array:
    """0, 1, 2 … EXACT_DISTANCES, then so many bins a doubling, up to 2³⁰."""
    octaves = 30 - (EXACT_DISTANCES.bit_length() - 1)
    steps = np.arange(1, octaves * per_doubling + 1) / per_doubling
    beyond = np.unique(np.round(EXACT_DISTANCES * 2.0**steps)).astype(np.int64)
    near = np.arange(EXACT_DISTANCES + 1)
    return np.concatenate([near, beyond[beyond > EXACT_DISTANCES]])
