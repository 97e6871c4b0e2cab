"""Two heads by their stored profiles: entropy along the rows, mass by key, mass by distance."""

from __future__ import annotations

from typing import Final

import numpy as np

from regard.recording import Head, Stored
from regard.recording.stores import Array
from regard.study.align import Alignment
from regard.study.divergence import js_distance, js_of_masses

_ROUNDING: Final = 1e-9  # of shares that add up to 1


def profile_distances(
    heads: tuple[Head, Head], queries: Alignment, keys: Alignment
) -> tuple[tuple[str, float], ...]:
    """What both have: the mean |ΔH| of matched rows in nats; the Jensen-Shannon distances of the
    mass that keys received and of the mass by distance."""
    found = []
    for name, measure in (("entropy", _entropy), ("received", _received), ("offsets", _offsets)):
        stored = tuple(head.stored.get(name) for head in heads)
        if stored[0] is None or stored[1] is None:
            continue
        value = measure(stored[0], stored[1], keys if name == "received" else queries)
        if value is not None:
            found.append((name, value))
    return tuple(found)


def _entropy(a: Stored, b: Stored, rows: Alignment) -> float | None:
    pair = _matched(a, b, rows)
    return None if pair is None else float(np.abs(pair[0] - pair[1]).mean())


def _received(a: Stored, b: Stored, keys: Alignment) -> float | None:
    pair = _matched(a, b, keys)
    sums = [float(np.sum(one.values, dtype=np.float64)) for one in (a, b)]
    if pair is None or not min(sums) > 0:
        return None
    p, q = (part / total for part, total in zip(pair, sums, strict=True))
    apart = 2 - float(p.sum() + q.sum())
    return float(js_distance(p, q, apart if apart > _ROUNDING else 0.0))


def _offsets(a: Stored, b: Stored, rows: Alignment) -> float | None:
    """Over the bins that both have."""
    assert a.edges is not None and b.edges is not None  # profiles always have
    low, high = min(a.edges[0], b.edges[0]), max(a.edges[-1], b.edges[-1])
    shared = np.intersect1d(_with(a.edges, low, high), _with(b.edges, low, high))
    return js_of_masses(*(_rebinned(one, shared) for one in (a, b)))


def _with(edges: Array, low: int, high: int) -> Array:
    """The edges, and every one beyond them, where there is no mass to cut in two."""
    return np.concatenate([np.arange(low, edges[0]), edges, np.arange(edges[-1] + 1, high + 1)])


def _rebinned(stored: Stored, edges: Array) -> Array:
    assert stored.edges is not None
    summed = np.concatenate([[0.0], np.cumsum(stored.values, dtype=np.float64)])
    at = np.searchsorted(stored.edges, edges).clip(max=len(summed) - 1)
    found: Array = np.diff(summed[at])
    return found


def _matched(a: Stored, b: Stored, tokens: Alignment) -> tuple[Array, Array] | None:
    """Both profiles at the matched tokens; bins only where they are the same on both sides."""
    assert a.edges is not None and b.edges is not None
    if a.measure.bin == b.measure.bin == 1:
        kept = np.ones(len(tokens), bool)
        for one, at in ((a.edges, tokens.a), (b.edges, tokens.b)):
            kept &= (at >= one[0]) & (at < one[-1])
        left, right = tokens.a[kept] - a.edges[0], tokens.b[kept] - b.edges[0]
        return _doubles(a.values[left], b.values[right]) if left.size else None
    if tokens.is_identity and np.array_equal(a.edges, b.edges):
        return _doubles(a.values, b.values)
    return None


def _doubles(a: Array, b: Array) -> tuple[Array, Array]:
    return a.astype(np.float64), b.astype(np.float64)
