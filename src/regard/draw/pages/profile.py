"""Profiles of a head: how far back it looks, how sharp it is along the text, who is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.draw.pages.words import as_json
from regard.recording import Head

_MOST: Final = 48  # bins of distance


@dataclass(frozen=True)
class Bins:
    """Entry n is about edges[n] … edges[n + 1] − 1."""

    edges: NDArray[np.int64]
    values: NDArray[np.float64]

    def span(self, n: int, dash: str = "–") -> str:
        """What entry n is about: 3, or 4–7."""
        first, last = int(self.edges[n]), int(self.edges[n + 1]) - 1
        return str(first) if first == last else f"{first}{dash}{last}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"edges": as_json(self.edges), "values": as_json(self.values)}


def distances(head: Head) -> Bins | None:
    """The share of all attention at each distance (query − key), in bins that widen; None where
    it is not known."""
    stored = head.stored.get("offsets")
    if stored is not None and stored.edges is not None:
        edges, masses = stored.edges.astype(np.int64), stored.values.astype(np.float64)
    elif head.exact:
        edges, masses = _diagonals(head)
    else:
        return None
    used = np.flatnonzero(masses)
    if not used.size:
        return None
    first, last = int(used[0]), int(used[-1]) + 1
    return _widening(edges[first : last + 1], masses[first:last] / len(head.recorded))


def entropies(head: Head) -> Bins | None:
    """The entropy along the rows, in the bins in which it is kept; None where it is not known."""
    stored = head.stored.get("entropy")
    if stored is not None and stored.edges is not None:
        return Bins(stored.edges.astype(np.int64), stored.values.astype(np.float64))
    if not head.exact:
        return None
    rows = head.recorded
    edges = np.arange(rows.start, rows.stop + 1)
    return Bins(edges, np.asarray(head.entropy(), np.float64))


def received(head: Head) -> Bins | None:
    """The share of all attention that each key, or bin of keys, received; None where unknown."""
    stored = head.stored.get("received")
    count = max(len(head.recorded), 1)
    if stored is not None and stored.edges is not None:
        return Bins(stored.edges.astype(np.int64), stored.values.astype(np.float64) / count)
    if not head.exact:
        return None
    return Bins(np.arange(head.shape[1] + 1), np.asarray(head.received(), np.float64) / count)


def _diagonals(head: Head) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Mass by distance, from the farthest key ahead (negative) to the farthest behind."""
    masses = np.asarray(head.offsets(), np.float64)[::-1]  # entry e: i − j = e − (keys − 1)
    lowest = 1 - head.shape[1] + _shift(head)
    return np.arange(lowest, lowest + masses.size + 1), masses


def _shift(head: Head) -> int:
    """Query i stands at key i + shift."""
    return 0 if head.place.kind == "self" else head.shape[1] - head.shape[0]


def _widening(edges: NDArray[np.int64], masses: NDArray[np.float64]) -> Bins:
    """At most a line of bins: single distances near 0, then ever more of them together."""
    if masses.size <= _MOST:
        return Bins(edges, masses)
    size = np.maximum(np.abs(edges), 1)
    octave = np.floor(2 * np.log2(size)).astype(np.int64) * np.where(edges < 0, -1, 1)
    octave = np.where(size <= 4, edges + np.where(edges < 0, -1000, 0), octave + 100)
    starts = np.flatnonzero(np.diff(octave[:-1], prepend=octave[0] - 1))
    return Bins(np.append(edges[starts], edges[-1]), np.add.reduceat(masses, starts))
