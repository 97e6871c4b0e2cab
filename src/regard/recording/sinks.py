"""The heaviest keys of a head, kept one by one where the others are kept in bins.

A sink gets over 0.3 of each row that sees it, of 64 rows at least (in a short text, of half of
them), so that it is among the heaviest: with those by name, and every other key no heavier than
the last of them, sinks are known however coarse the bins are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from regard.recording.stores import Array

SINK: Final = 0.3  # Gu et al. 2024
FEW_ROWS: Final = 64  # a key, or a distance, that fewer rows share says little about the head
MOST_HEAVY: Final = 16  # keys a head


def few_rows(count: int) -> int:
    """So many of the rows have to share a key or a distance before it is believed."""
    return min(FEW_ROWS, max(count // 2, 1))


def needed_mass(seen: Array, rows: int) -> Array:
    """A key is a sink if it gets more; no mass is enough where few of the rows see it."""
    return np.where(seen >= few_rows(rows), SINK * seen, np.inf)


def heaviest(received: Array) -> tuple[Array, Array]:
    """(H, m ≤ 16) each: the heaviest of (H, keys), and their mass."""
    order = np.argsort(-received, axis=1, kind="stable")[:, :MOST_HEAVY]
    masses = np.take_along_axis(received, order, 1)
    return order.astype(np.int32), masses.astype(np.float32)


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


class Split(NamedTuple):
    """Which keys are sinks, and what they and all others got."""

    marks: Array  # (keys,) booleans
    sinks: float
    others: float
    highest: float  # the largest mean share of the rows that see a key


def split_bins(
    received: Array, size: int, first: float, needed: Array, heavy: Heavy
) -> Split | None:
    """From the mass of bins of `size` keys, (bins,), of key 0 and of `heavy` keys; `needed` is
    (keys,). None where a bin holds so much that another of its keys may be a sink."""
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
    return Split(marks, float(masses[is_sink].sum()), rest, highest)
