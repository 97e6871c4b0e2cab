"""Curves along a map's sides: who is looked at, how far back, how evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.draw.pages.words import as_json
from regard.recording import Head

MOST_POINTS: Final = 2048
_DIGITS: Final = 9
_TINY: Final = 1e-200  # below it, powers of ten overflow


@dataclass(frozen=True)
class Track:
    """Point n is about tokens edges[n] … edges[n + 1] − 1: their mean, and the largest of them,
    without which a single token's spike would drown."""

    words: str
    edges: NDArray[np.int64]
    mean: NDArray[np.float64]
    largest: NDArray[np.float64]

    @classmethod
    def of(cls, words: str, edges: NDArray[Any], values: NDArray[Any]) -> Track:
        """Of numbers per token, one for each span between edges."""
        edges, values = edges.astype(np.int64), values.astype(np.float64)
        step = -(-values.size // MOST_POINTS)
        if step <= 1:
            return cls(words, edges, values, values)
        starts = np.arange(0, values.size, step)
        lengths = np.diff(edges)
        sums = np.add.reduceat(values * lengths, starts)
        mean = sums / np.add.reduceat(lengths, starts)
        largest = np.fmax.reduceat(values, starts)
        return cls(words, np.append(edges[starts], edges[-1]), mean, largest)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; null for what is no number."""
        return {
            "words": self.words,
            "edges": as_json(self.edges),
            "mean": as_json(_brief(self.mean)),
            "largest": as_json(_brief(self.largest)),
        }


def _brief(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nine digits, which is all that a float32 knows: half as much to send."""
    known = np.isfinite(values) & (np.abs(values) > _TINY)
    powers = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(values[known]))))
    found = values.copy()
    found[known] = np.round(values[known] * powers) / powers
    return found


def tracks_of(head: Head) -> dict[str, Track | None]:
    """What is stored, else computed; None where it is not known."""
    return {"received": _received(head), "distance": _distance(head), "entropy": _entropy(head)}


def _received(head: Head) -> Track | None:
    words = "attention that a key received, in rows"
    stored = head.stored.get("received")
    if stored is not None and stored.edges is not None:
        return Track.of(words, stored.edges, stored.values / np.diff(stored.edges))
    if not head.exact:
        return None
    return Track.of(words, np.arange(head.shape[1] + 1), head.received())


def _distance(head: Head) -> Track | None:
    """Without the distances at both ends at which nothing lies."""
    stored = head.stored.get("offsets")
    if stored is not None and stored.edges is not None:
        edges, masses = stored.edges, stored.values / np.diff(stored.edges)
    elif head.exact:
        shift = 0 if head.place.kind == "self" else head.shape[1] - head.shape[0]
        masses = head.offsets()[::-1]
        edges = np.arange(masses.size + 1) + 1 - head.shape[1] + shift
    else:
        return None
    used = np.flatnonzero(masses)
    if not used.size:
        return None
    span = slice(int(used[0]), int(used[-1]) + 1)
    words = "attention at a distance (query − key), in rows"
    return Track.of(words, edges[span.start : span.stop + 1], masses[span])


def _entropy(head: Head) -> Track | None:
    words = "entropy of a row, in nats"
    stored = head.stored.get("entropy")
    if stored is not None and stored.edges is not None:
        return Track.of(words, stored.edges, stored.values)
    if not head.exact:
        return None
    rows = head.recorded
    return Track.of(words, np.arange(rows.start, rows.stop + 1), head.entropy())
