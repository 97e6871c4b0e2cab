"""Sinks: keys that the rows which see them give a large share to, whatever the rows are about.

α_k = mass that key k received ÷ rows that see it; a sink has α_k > 0.3, of 64 rows at least (in a
short text, of half of them). Where the mass is known for bins of keys only, a sink is among the
heaviest keys, which are kept one by one: with those by name, and every other key no heavier than
the last of them, sinks are known however coarse the bins are. Else single keys may be judged by the
rows whose heaviest keys are listed. A bin is never taken for a key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from regard.recording.stores import Array

if TYPE_CHECKING:
    from regard.recording.visibility import VisibleSpans

SINK: Final = 0.3  # Gu et al. 2024
FEW_ROWS: Final = 64  # a key, or a distance, that fewer rows share says little about the head
MOST_HEAVY: Final = 16  # keys a head
_GROUP: Final = 64  # keys, of which the heaviest stands for all at first


def few_rows(count: int) -> int:
    """So many of the rows have to share a key or a distance before it is believed."""
    return min(FEW_ROWS, max(count // 2, 1))


def needed_mass(seen: Array, rows: int) -> Array:
    """A key is a sink if it gets more; no mass is enough where few of the rows see it."""
    return np.where(seen >= few_rows(rows), SINK * seen, np.inf)


def heaviest(received: Array) -> tuple[Array, Array]:
    """(H, m ≤ 16) each: the heaviest of (H, keys), heaviest first, and their mass; of equal ones
    the earlier."""
    order = np.empty((len(received), min(received.shape[1], MOST_HEAVY)), np.int64)
    for head, masses in enumerate(received):
        order[head] = _heaviest_first(-masses)
    masses = np.take_along_axis(received, order, 1)
    return order.astype(np.int32), masses.astype(np.float32)


def _heaviest_first(lightness: Array) -> Array:
    """(m,): only keys that can be among the heaviest are sorted, as all of them would be. Each of
    16 groups has a key that is no lighter than the lightest of their 16 champions."""
    groups = lightness.size // _GROUP
    among = np.arange(lightness.size)
    if groups >= MOST_HEAVY:
        champions = lightness[: groups * _GROUP].reshape(_GROUP, groups).min(axis=0)
        bound = np.partition(champions, MOST_HEAVY - 1)[MOST_HEAVY - 1]
        among = np.flatnonzero(~(lightness > bound))  # NaN too, which is sorted behind all
    return among[np.argsort(lightness[among], kind="stable")[:MOST_HEAVY]]


class Heavy(NamedTuple):
    """Keys of one head whose mass is known by itself."""

    keys: Array  # (n,)
    masses: Array  # (n,)
    lacking: Array  # (n,): so much more it may be, where a rank does not list the key
    most: float = np.inf  # any other key has so much at most

    @classmethod
    def none(cls) -> Heavy:
        """No key is."""
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    @classmethod
    def of_ranks(cls, lists: Sequence[tuple[Array, Array]]) -> Heavy:
        """From the keys and masses (m,) that each rank lists of its rows, heaviest first."""
        keys = np.unique(np.concatenate([listed for listed, _ in lists]))
        masses, lacking = np.zeros(keys.size), np.zeros(keys.size)
        lightest = [float(mass.min(initial=np.inf)) for _, mass in lists]
        for (listed, mass), most in zip(lists, lightest, strict=True):
            masses[np.searchsorted(keys, listed)] += mass
            lacking[~np.isin(keys, listed)] += most
        return cls(keys, masses, lacking, sum(lightest))


class Tops(NamedTuple):
    """The heaviest keys of some rows, largest first; −1 and 0 where fewer."""

    rows: Array  # (n,)
    keys: Array  # (n, k)
    weights: Array  # (n, k)


class Sinks(NamedTuple):
    """Which keys are sinks, and what they get."""

    marks: Array  # (keys,) booleans; none where they are not known
    mass: float  # mean over rows; their sum where `find_sinks` is asked for sums
    rest: float  # of all other keys; summed where it can be, 1 − a sink of 0.9999 is noise
    highest: float  # the largest α: unlike the mass, it does not jump where a key becomes a sink

    def among(self, keys: Array) -> Array:
        """Which of the keys (−1: none) are sinks."""
        if not self.marks.size:
            return np.zeros(keys.shape, bool)
        return self.marks[np.maximum(keys, 0)] & (keys >= 0)

    @property
    def keys(self) -> Array:
        """The sinks."""
        return np.flatnonzero(self.marks)


UNKNOWN_SINKS: Final = Sinks(np.zeros(0, bool), math.nan, math.nan, math.nan)


def find_sinks(
    received: Array,
    seen: Array,
    rows: int,
    *,
    count: float = 1.0,
    size: int = 1,
    first: float = math.nan,
    heavy: Heavy | None = None,
) -> Sinks | None:
    """Of one head: the one finder.

    received  (bins,): the mass that each key got, or each `size` keys together
    seen      (keys,): how many of `rows` rows see each key
    count     masses are divided by it: the rows that see any key; 1 for sums
    first     what key 0 got, and `heavy` what others got by themselves, where size > 1

    None where a bin holds so much that a key of it which is not known by itself may be a sink.
    """
    needed = needed_mass(seen, rows)
    if size > 1:
        return _from_bins(received, size, first, needed, heavy or Heavy.none(), count)
    with np.errstate(invalid="ignore"):
        marks = received > needed
        mass, rest = (
            float(np.where(which, received, 0).sum(dtype=np.float64)) / count
            for which in (marks, ~marks)
        )
        shares = np.where(np.isfinite(needed), received / np.maximum(seen, 1), 0)
    return Sinks(marks, mass, rest, float(shares.max(initial=0)))


def _from_bins(
    received: Array, size: int, first: float, needed: Array, heavy: Heavy, count: float
) -> Sinks | None:
    more = heavy.keys > 0
    keys = np.append(0, heavy.keys[more])
    masses, lacking = np.append(first, heavy.masses[more]), np.append(0, heavy.lacking[more])
    left, others = received.astype(np.float64), needed.copy()
    np.subtract.at(left, keys // size, masses)
    others[keys] = np.inf
    lightest = np.minimum.reduceat(others, np.arange(0, needed.size, size))
    unsure = (masses + lacking > needed[keys]) & (lacking > 0)
    if unsure.any() or not (np.minimum(left, heavy.most) <= lightest).all():
        return None
    is_sink = masses > needed[keys]
    marks = np.zeros(needed.size, bool)
    marks[keys[is_sink]] = True
    rest = max(float(masses[~is_sink].sum() + left.sum()), 0.0)
    highest = float((SINK * masses / needed[keys]).max())
    return Sinks(marks, float(masses[is_sink].sum()) / count, rest / count, highest)


def sinks_from_lists(tops: Tops, spans: VisibleSpans | None, keys: int, learned: float) -> Sinks:
    """From the heaviest keys of the rows that are listed, where `find_sinks` cannot tell: a sink is
    among them in nearly all. `learned`: the mass that no key got."""
    listed = tops.keys >= 0
    got = np.bincount(tops.keys[listed], tops.weights[listed], keys)
    seen = np.full(keys, len(tops.rows))
    if spans is not None:
        at = tops.rows - spans.rows[0]
        steps = np.zeros(keys + 1, np.int64)
        np.add.at(steps, spans.low[at], 1)
        np.add.at(steps, spans.high[at], -1)
        seen = np.cumsum(steps)[:-1]
    shares = np.where(seen >= few_rows(len(tops.rows)), got / np.maximum(seen, 1), 0)
    marks = shares > SINK
    mass = float(got[marks].sum()) / max(len(tops.rows), 1)
    return Sinks(marks, mass, max(1 - learned - mass, 0.0), float(shares.max(initial=0)))
