"""Sinks: keys that the rows which see them give a large share to, whatever the rows are about.

α_k = mass that key k received ÷ rows that see it, of keys that enough rows see; a sink has
α_k > 0.3. Where the mass is known for bins of keys only, single keys are judged by the rows whose
heaviest keys are listed.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from regard.recording.store import Array
from regard.study.reach import Reach

__all__ = [
    "FEW_ROWS",
    "SINK",
    "UNKNOWN_SINKS",
    "Sinks",
    "Tops",
    "few_rows",
    "from_columns",
    "from_lists",
]

SINK: Final = 0.3  # Gu et al. 2024
FEW_ROWS: Final = 64  # a key, or a distance, that fewer rows share says little about the head


class Tops(NamedTuple):
    """The heaviest keys of some rows, largest first; −1 and 0 where fewer."""

    rows: Array  # (n,)
    keys: Array  # (n, k)
    weights: Array  # (n, k)


class Sinks(NamedTuple):
    """Which keys are sinks, and what they get."""

    marks: Array  # (n,) booleans: entry e stands for keys e · size … e · size + size − 1
    size: int
    mass: float  # mean over rows
    rest: float  # of all other keys; summed where it can be, 1 − a sink of 0.9999 is noise
    highest: float  # the largest α: unlike the mass, it does not jump where a key becomes a sink

    def among(self, keys: Array) -> Array:
        """Which of the keys (−1: none) are sinks."""
        if not self.marks.size:
            return np.zeros(keys.shape, bool)
        at = np.minimum(np.maximum(keys, 0) // self.size, self.marks.size - 1)
        found: Array = self.marks[at] & (keys >= 0)
        return found

    @property
    def keys(self) -> Array:
        """The sinks; the first key of each where keys are binned."""
        return np.flatnonzero(self.marks) * self.size


UNKNOWN_SINKS: Final = Sinks(np.zeros(0, bool), 1, math.nan, math.nan, math.nan)


def few_rows(count: int) -> int:
    """So many of the rows have to share a key or a distance before it is believed."""
    return min(FEW_ROWS, max(count // 2, 1))


def from_columns(received: Array, seen: Array, size: int, rows: range, count: float) -> Sinks:
    """From the mass that keys, or bins of keys, received, (n,) each; `count` rows see any key."""
    shares = np.where(seen >= few_rows(len(rows)), received / np.maximum(seen, 1), 0)
    marks = shares > SINK
    mass, rest = (float(received[which].sum()) / count for which in (marks, ~marks))
    return Sinks(marks, size, mass, rest, float(shares.max(initial=0)))


def from_lists(tops: Tops, reach: Reach | None, keys: int, learned: float) -> Sinks:
    """From the heaviest keys of the rows that are listed: a sink is among them in nearly all."""
    listed = tops.keys >= 0
    got = np.bincount(tops.keys[listed], tops.weights[listed], keys)
    seen = np.full(keys, len(tops.rows))
    if reach is not None:
        at = tops.rows - reach.rows[0]
        steps = np.zeros(keys + 1, np.int64)
        np.add.at(steps, reach.low[at], 1)
        np.add.at(steps, reach.high[at], -1)
        seen = np.cumsum(steps)[:-1]
    shares = np.where(seen >= few_rows(len(tops.rows)), got / np.maximum(seen, 1), 0)
    marks = shares > SINK
    mass = float(got[marks].sum()) / max(len(tops.rows), 1)
    return Sinks(marks, 1, mass, max(1 - learned - mass, 0.0), float(shares.max(initial=0)))
