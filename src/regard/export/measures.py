"""What is known of a head row by row or key by key: as it was kept, or computed where it can be.

What was kept in bins comes in bins: entry n stands for edges[n] … edges[n + 1] − 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.export.chosen import Chosen
from regard.recording import Head
from regard.recording.measures import KINDS

_Array: TypeAlias = NDArray[Any]

_QUICK: Final = 2**26  # cells

# Those that q and k give back where they were not kept.
_WAYS: Final = {name: kind.again for name, kind in KINDS.items() if kind.again is not None}


@dataclass(frozen=True)
class Top:
    """The heaviest keys (rows, k) of some rows, −1 and 0 where a row has fewer."""

    rows: _Array
    keys: _Array
    weights: _Array


def row_edges(one: Chosen) -> _Array:
    """(n + 1,): single rows, or the bins in which the numbers of long texts were kept."""
    numbers = one.head.row_numbers
    binned = [name for name in numbers if one.head.has(name) and _bin(one.head, name) > 1]
    if not binned or _is_quick(one.head):
        return np.arange(one.rows.start, one.rows.stop + 1)
    edges = np.asarray(one.head.stored[binned[0]].edges)
    inside = (edges[1:] > one.rows.start) & (edges[:-1] < one.rows.stop)
    return np.append(edges[:-1][inside], edges[1:][inside][-1:])


def known_numbers(one: Chosen, edges: _Array) -> list[str]:
    """Which numbers of rows are known over those edges."""
    is_binned = edges.size <= len(one.rows)
    return [
        name
        for name in one.head.row_numbers
        if (one.head.has(name) and (_bin(one.head, name) > 1) == is_binned)
        or (one.head.exact and name in _WAYS and not is_binned)
    ]


def row_numbers(one: Chosen, name: str, edges: _Array) -> _Array:
    """(n,) of a number that is known over those edges."""
    head = one.head
    if head.has(name) and (_bin(head, name) > 1) == (edges.size <= len(one.rows)):
        stored = head.stored[name]
        first = int(np.searchsorted(np.asarray(stored.edges), edges[0]))
        return stored.values[first : first + edges.size - 1]
    return np.asarray(_WAYS[name](head))[one.own_rows]


def _is_quick(head: Head) -> bool:
    """Whether single rows are soon computed; else what was kept will do, in its bins."""
    return head.exact and len(head.recorded) * head.shape[1] <= _QUICK


def _bin(head: Head, name: str) -> int:
    """Rows that one kept number stands for."""
    is_binned = name not in KINDS or KINDS[name].is_binned
    return head.place.row_bin if is_binned else 1


def heaviest(one: Chosen, k: int) -> Top:
    """The k heaviest keys of each row; fewer keys, or only every nth row, where no more were kept.
    UnavailableError where none were."""
    head = one.head
    kept = [head.stored[name] for name in ("top_weights", "top_keys") if head.has(name)]
    if len(kept) < 2 or _is_quick(head):
        found = head.top(k)
        rows = np.arange(one.rows.start, one.rows.stop)
        return Top(rows, found.keys[one.own_rows], found.weights[one.own_rows])
    rows = np.asarray(kept[0].edges)[:-1]
    inside = (rows >= one.rows.start) & (rows < one.rows.stop)
    return Top(rows[inside], kept[1].values[inside][:, :k], kept[0].values[inside][:, :k])


def received(one: Chosen) -> tuple[_Array, _Array]:
    """(n + 1,) edges and (n,) mass: what each key, or bin of keys, got from all recorded rows."""
    head = one.head
    if head.has("received"):
        stored = head.stored["received"]
        mass, edges = stored.values, np.asarray(stored.edges)
    else:
        mass, edges = np.asarray(head.received()), np.arange(head.shape[1] + 1)
    inside = (edges[1:] > one.keys.start) & (edges[:-1] < one.keys.stop)
    return np.append(edges[:-1][inside], edges[1:][inside][-1:]), mass[inside]


def pooled(one: Chosen) -> _Array:
    """The map that was kept; else one of at most 512 cells a side."""
    own = one.head.place.pool_cell
    return np.asarray(one.head.pooled(own if one.head.has("pooled") and own else None))


def is_kept(one: Chosen, what: str) -> bool:
    """Whether it was measured while recording, so that nothing has to be computed."""
    names = {"rows": "lse", "top": "top_weights", "received": "received", "pooled": "pooled"}
    return what == "statistics" or one.head.has(names[what])
