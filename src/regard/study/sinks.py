"""Sinks: keys that the rows which see them give a large share to, whatever the rows are about.

α_k = mass that key k received ÷ rows that see it, of keys that enough rows see; a sink has
α_k > 0.3. Where the mass is known for bins of keys only, keys that are summed by themselves (key 0
and those heavy enough) are the only sinks if no bin holds enough for another. Else single keys are
judged by the rows whose heaviest keys are listed. A bin is never taken for a key.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from regard.recording.sinks import SINK, Heavy, few_rows, needed_mass, split_bins
from regard.recording.stores import Array
from regard.study.reach import Reach


class Tops(NamedTuple):
    """The heaviest keys of some rows, largest first; −1 and 0 where fewer."""

    rows: Array  # (n,)
    keys: Array  # (n, k)
    weights: Array  # (n, k)


class Sinks(NamedTuple):
    """Which keys are sinks, and what they get."""

    marks: Array  # (keys,) booleans; none where they are not known
    mass: float  # mean over rows
    rest: float  # of all other keys; summed where it can be, 1 − a sink of 0.9999 is noise
    highest: float  # the largest α: unlike the mass, it does not jump where a key becomes a sink

    def among(self, keys: Array) -> Array:
        """Which of the keys (−1: none) are sinks."""
        if not self.marks.size:
            return np.zeros(keys.shape, bool)
        found: Array = self.marks[np.maximum(keys, 0)] & (keys >= 0)
        return found

    @property
    def keys(self) -> Array:
        """The sinks."""
        return np.flatnonzero(self.marks)


UNKNOWN_SINKS: Final = Sinks(np.zeros(0, bool), math.nan, math.nan, math.nan)


def from_columns(received: Array, seen: Array, rows: range, count: float) -> Sinks:
    """From the mass that keys received and the rows that see them, (keys,) each; `count` rows see
    any key."""
    shares = np.where(seen >= few_rows(len(rows)), received / np.maximum(seen, 1), 0)
    marks = shares > SINK
    mass, rest = (float(received[which].sum()) / count for which in (marks, ~marks))
    return Sinks(marks, mass, rest, float(shares.max(initial=0)))


def from_bins(
    received: Array,
    size: int,
    first: float,
    seen: Array,
    rows: range,
    count: float,
    heavy: Heavy | None = None,
) -> Sinks | None:
    """From the mass that bins of `size` keys received, (bins,), key 0 alone and `heavy` keys alone;
    `seen` is (keys,). None where a bin holds so much that another of its keys may be a sink."""
    found = split_bins(received, size, first, needed_mass(seen, len(rows)), heavy or Heavy.none())
    if found is None:
        return None
    return Sinks(found.marks, found.sinks / count, found.others / count, found.highest)


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
    return Sinks(marks, mass, max(1 - learned - mass, 0.0), float(shares.max(initial=0)))
