"""A head along its sides: who is looked at, how far back, how evenly. From what was stored, else
computed; None where it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.recording import Head
from regard.views.encoding import as_json
from regard.views.schema import TrackAnswer, TracksAnswer

MOST_POINTS: Final = 2048
_DIGITS: Final = 9
_TINY: Final = 1e-200  # below it, powers of ten overflow
_OCTAVES: Final = 48  # bins of distance that stand in a line
_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Bins:
    """Entry n is about edges[n] … edges[n + 1] − 1."""

    edges: NDArray[np.int64]
    values: NDArray[np.float64]

    def span(self, n: int, dash: str = "–") -> str:
        """What entry n is about: 3, or 4–7."""
        first, last = int(self.edges[n]), int(self.edges[n + 1]) - 1
        return str(first) if first == last else f"{first}{dash}{last}"


def received(head: Head) -> Bins | None:
    """Mass that each key, or bin of keys, received, in rows."""
    return _stored(head, "received") or (
        _bins(np.arange(head.shape[1] + 1), head.received()) if head.exact else None
    )


def entropies(head: Head) -> Bins | None:
    """The entropy along the rows, in nats."""
    rows = head.recorded
    return _stored(head, "entropy") or (
        _bins(np.arange(rows.start, rows.stop + 1), head.entropy()) if head.exact else None
    )


def distances(head: Head) -> Bins | None:
    """Mass at each distance (query − key), in rows, without the ends at which nothing lies."""
    found = _stored(head, "offsets")
    if found is None and head.exact:
        shift = 0 if head.place.kind == "self" else head.shape[1] - head.shape[0]
        masses = head.offsets()[::-1]  # entry e: i − j = e − (keys − 1)
        found = _bins(np.arange(masses.size + 1) + 1 - head.shape[1] + shift, masses)
    used = np.flatnonzero([] if found is None else found.values)
    if found is None or not used.size:
        return None
    first, last = int(used[0]), int(used[-1]) + 1
    return Bins(found.edges[first : last + 1], found.values[first:last])


def _stored(head: Head, name: str) -> Bins | None:
    kept = head.stored.get(name)
    return None if kept is None or kept.edges is None else _bins(kept.edges, kept.values)


def _bins(edges: _Array, values: _Array) -> Bins:
    return Bins(np.asarray(edges, np.int64), np.asarray(values, np.float64))


def widening(bins: Bins) -> Bins:
    """Sums, at most a line of them: single distances near 0, then ever more of them together."""
    edges, masses = bins.edges, bins.values
    if masses.size <= _OCTAVES:
        return bins
    size = np.maximum(np.abs(edges), 1)
    octave = np.floor(2 * np.log2(size)).astype(np.int64) * np.where(edges < 0, -1, 1)
    octave = np.where(size <= 4, edges + np.where(edges < 0, -1000, 0), octave + 100)
    starts = np.flatnonzero(np.diff(octave[:-1], prepend=octave[0] - 1))
    return Bins(np.append(edges[starts], edges[-1]), np.add.reduceat(masses, starts))


# ── curves ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Track:
    """Point n is about tokens edges[n] … edges[n + 1] − 1: their mean, and the largest of them,
    without which a single token's spike would drown."""

    words: str
    edges: NDArray[np.int64]
    mean: NDArray[np.float64]
    largest: NDArray[np.float64]

    @classmethod
    def of(cls, words: str, edges: _Array, values: _Array) -> Track:
        """Of numbers per token, one for each span between edges."""
        edges, values = edges.astype(np.int64), values.astype(np.float64)
        return cls(words, edges, values, values).coarser(MOST_POINTS)

    def coarser(self, points: int) -> Track:
        """In at most so many points."""
        step = -(-self.mean.size // points)
        if step <= 1:
            return self
        starts, lengths = np.arange(0, self.mean.size, step), np.diff(self.edges)
        sums = np.add.reduceat(self.mean * lengths, starts)
        mean = sums / np.add.reduceat(lengths, starts)
        largest = np.fmax.reduceat(self.largest, starts)
        return Track(self.words, np.append(self.edges[starts], self.edges[-1]), mean, largest)

    def as_answer(self) -> TrackAnswer:
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
    """Beside its map."""
    looked_at, back, spread = received(head), distances(head), entropies(head)
    return {
        "received": _per_token("attention received by a key; 1 is all of one row", looked_at),
        "distance": _per_token("attention at a distance (query − key); 1 is all of one row", back),
        "entropy": None
        if spread is None
        else Track.of("entropy of a row, in nats", spread.edges, spread.values),
    }


def _per_token(words: str, bins: Bins | None) -> Track | None:
    if bins is None:
        return None
    return Track.of(words, bins.edges, bins.values / np.diff(bins.edges))


def tracks_answer(tracks: dict[str, Track | None]) -> TracksAnswer:
    """For JSON; of a head whose curves cannot be read, none."""

    def one(name: str) -> TrackAnswer | None:
        track = tracks.get(name)
        return None if track is None else track.as_answer()

    return {"received": one("received"), "distance": one("distance"), "entropy": one("entropy")}
