"""Which keys each row may see, as runs: so that a page carries no cell that nobody may look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.recording.visibility import Sight, seen_cells

_AT_ONCE = 256  # rows
_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Sightlines:
    """Row n of `rows` sees the keys of counts[n] runs, edges[2m] ≤ key < edges[2m + 1]."""

    rows: _Array  # (R,): as the model counts them
    counts: _Array  # (R,)
    edges: _Array  # (2 · Σ counts,)
    keys: int

    def chosen(self, cells: _Array, start: int, stop: int) -> _Array:
        """Those of (stop − start, keys) cells that rows start … stop − 1 may see, row by row."""
        seen = np.zeros((stop - start, self.keys + 1), np.int8)
        first, last = (int(self.counts[:n].sum()) * 2 for n in (start, stop))
        at = np.repeat(np.arange(stop - start), self.counts[start:stop])
        np.add.at(seen, (at, self.edges[first:last:2]), 1)
        np.add.at(seen, (at, self.edges[first + 1 : last : 2]), -1)
        return cells[np.cumsum(seen, axis=1)[:, :-1] > 0]

    @property
    def cells(self) -> int:
        """How many there are to see."""
        return int(np.diff(self.edges.reshape(-1, 2)).sum())

    def as_dict(self) -> dict[str, Any]:
        """For JSON; rows that follow one another as their first and the one after the last."""
        count = self.rows.size
        first = int(self.rows[0]) if count else 0
        is_span = bool(np.array_equal(self.rows, np.arange(first, first + count)))
        single = bool((self.counts == 1).all())
        return {
            "span": [first, first + count] if is_span else None,
            "rows": None if is_span else self.rows.tolist(),
            "counts": None if single else self.counts.tolist(),
            "edges": self.edges.tolist(),
        }


def sightlines_of(sight: Sight, rows: _Array) -> Sightlines:
    """Of recorded rows of a head."""
    keys = sight.held.place.keys
    counts, edges = [], []
    for at in range(0, rows.size, _AT_ONCE):
        seen = seen_cells(sight, rows[at : at + _AT_ONCE], np.arange(keys))
        padded = np.pad(seen, ((0, 0), (1, 1))).astype(np.int8)
        turns = np.diff(padded, axis=1)  # 1 where a run begins, −1 behind its end
        counts.append(np.count_nonzero(turns == 1, axis=1))
        edges.append(np.nonzero(turns)[1])
    none = [np.zeros(0, np.int64)]
    return Sightlines(rows, np.concatenate(counts or none), np.concatenate(edges or none), keys)
