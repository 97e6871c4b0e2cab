"""Masks as intervals: most masks let row i see the keys low ≤ j < high and no others.

Kernels like that form: two numbers a row instead of L×S booleans, and whole tiles to skip.
`spans_of` splits any mask into the part that is such intervals and the rest, if any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.arrays import host, is_bool

if TYPE_CHECKING:
    from regard.mask.base import Extent, Mask

_Integers: TypeAlias = NDArray[np.int64]

_CELLS = 2**22  # that are asked about at a time


class Spans(NamedTuple):
    """(*batch, queries) or broadcastable: row i sees keys low ≤ j < high."""

    low: _Integers
    high: _Integers


def spans_of(mask: Mask | None, extent: Extent) -> tuple[Spans | None, Mask | None]:
    """(intervals, rest): what the mask allows is what both allow; None allows everything."""
    return (None, None) if mask is None else mask.intervals(extent)


def of_flags(given: NDArray[np.generic]) -> Spans | None:
    """(*batch,): where the one run of True begins and ends; None where there are several."""
    if not is_bool(given):
        return Spans(np.zeros(given.shape, np.int64), given.astype(np.int64))
    if given.shape[-1] == 0:  # nothing, of which there is no first
        return Spans(*(np.zeros(given.shape[:-1], np.int64) for _ in range(2)))
    starts = np.diff(given.astype(np.int8), axis=-1, prepend=0) == 1
    if np.any(starts.sum(-1) > 1):
        return None
    low = starts.argmax(-1)
    return Spans(low.astype(np.int64), low + given.sum(-1, dtype=np.int64))


def of_documents(query_ids: NDArray[np.generic], key_ids: NDArray[np.generic]) -> Spans | None:
    """Each document's keys, where they stand together; None where one is scattered."""
    batch = np.broadcast_shapes(query_ids.shape[:-1], key_ids.shape[:-1])
    queries = np.broadcast_to(query_ids, (*batch, query_ids.shape[-1]))
    keys = np.broadcast_to(key_ids, (*batch, key_ids.shape[-1]))
    low, high = (np.zeros(queries.shape, np.int64) for _ in range(2))
    for entry in np.ndindex(batch):
        names, first, counts = np.unique(keys[entry], return_index=True, return_counts=True)
        if names.size == 0:
            continue
        last = keys.shape[-1] - np.unique(keys[entry][::-1], return_index=True)[1]
        if np.any(last - first != counts):
            return None
        at = np.searchsorted(names, queries[entry]).clip(max=names.size - 1)
        known = names[at] == queries[entry]
        low[entry], high[entry] = np.where(known, first[at], 0), np.where(known, last[at], 0)
    return Spans(low, high)


def both_of(a: Spans, b: Spans) -> Spans:
    """The keys that lie in both intervals."""
    return Spans(np.maximum(a.low, b.low), np.minimum(a.high, b.high))


def either_of(a: Spans, b: Spans) -> Spans | None:
    """The intervals that cover both, where that adds no key neither allows."""
    empty_a, empty_b = a.high <= a.low, b.high <= b.low
    touching = (a.low <= b.high) & (b.low <= a.high)
    if not np.all(empty_a | empty_b | touching):
        return None
    low = np.where(empty_a, b.low, np.where(empty_b, a.low, np.minimum(a.low, b.low)))
    high = np.where(empty_a, b.high, np.where(empty_b, a.high, np.maximum(a.high, b.high)))
    return Spans(low, high)


def runs_of(mask: Mask, extent: Extent, indices: Callable[[int, int], Any]) -> Spans | None:
    """The one run of keys that each query sees, by asking about every cell in strips of rows;
    None where a query sees several runs, or heads and batch entries see different ones.
    `indices` makes index vectors start … stop of the library that the mask holds."""
    low, high = (np.zeros(extent.queries, np.int64) for _ in range(2))
    keys, step = indices(0, extent.keys), max(_CELLS // max(extent.keys, 1), 1)
    for start in range(0, extent.queries, step):
        rows = slice(start, min(start + step, extent.queries))
        seen = np.asarray(host(mask.allows(indices(rows.start, rows.stop), keys, extent)))
        if seen.size and max(seen.shape[:-2], default=1) > 1:
            return None
        flags = np.broadcast_to(seen.reshape(seen.shape[-2:]), (rows.stop - start, extent.keys))
        found = of_flags(flags)
        if found is None:
            return None
        low[rows], high[rows] = found
    return Spans(low, high)
