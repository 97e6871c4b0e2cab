"""Mass by distance: profiles of bins, added where their bins agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.errors import FileError
from regard.recording.store import Array


class Profile(NamedTuple):
    """Mass by distance: bin b holds distances edges[b] … edges[b + 1] − 1."""

    masses: Array  # (H, bins) float64
    edges: Array  # (bins + 1,) int64, ascending


def add_profiles(label: str, found: Sequence[tuple[Array, Array]]) -> Profile:
    """The sum of masses (H, bins) with edges (bins + 1,), over the edges they share."""
    wide = [Profile(masses.astype(np.float64), edges.astype(np.int64)) for masses, edges in found]
    for masses, edges in wide:
        if masses.shape[1] + 1 != edges.size or np.any(edges[1:] <= edges[:-1]):
            raise FileError(f"{label}: offset_edges do not fit offsets, or do not ascend")
    total = wide[0]
    for more in wide[1:]:
        total = _added(total, more)
    return total


def _added(a: Profile, b: Profile) -> Profile:
    every = np.union1d(a.edges, b.edges)
    shared = every[_is_edge(every, a.edges) & _is_edge(every, b.edges)]
    total = np.zeros((a.masses.shape[0], max(shared.size - 1, 0)))
    for masses, edges in (a, b):
        at = np.searchsorted(shared, edges[:-1], side="right") - 1
        np.add.at(total.T, at, masses.T)
    return Profile(total, shared)


def _is_edge(places: Array, edges: Array) -> Array:
    """Where a profile has a bin's edge, or nothing at all."""
    outside = (places < edges[0]) | (places > edges[-1])
    return np.isin(places, edges) | outside


def mass_at(profile: Profile, distance: int) -> Array | None:
    """(H,): the mass at one distance; None where its bin holds others too."""
    masses, edges = profile
    at = int(np.searchsorted(edges, distance, side="right")) - 1
    if not 0 <= at < masses.shape[1]:
        return np.zeros(masses.shape[0])  # nobody stands so far apart
    return masses[:, at] if edges[at + 1] - edges[at] == 1 else None
