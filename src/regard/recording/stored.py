"""What was measured while recording, as it lies in the file: with its bins, and said in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from regard.errors import FileError
from regard.recording.held import Held
from regard.recording.store import Array

_TOP: Final = ("top_weights", "top_keys")
_HOW: Final = {"sum": "mean", "max": "largest", "min": "smallest"}  # shown, by how rows join


class Measure(NamedTuple):
    """What a stored number stands for."""

    of: str  # rows, keys, distances, cells; of what this version does not know, the file's word
    bin: int  # how many of them, at most; 0 where that is not known
    how: str  # of a bin: mean, sum, largest, smallest, first, or the file's word

    def __str__(self) -> str:
        if not self.bin:
            return f"{self.of}, as stored"
        if self.of == "distances":
            return "sum by distance"
        if self.of == "cells":
            return f"{self.how} of {self.bin} tokens a cell"
        if self.bin == 1:
            return f"all {self.of}"
        return f"{self.how} of {self.bin} {self.of} a bin"


@dataclass(frozen=True, eq=False)
class Stored:
    """One thing that was measured of a head."""

    values: Array
    measure: Measure
    edges: Array | None = None  # (n + 1,): entry e stands for edges[e] … edges[e + 1] − 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The values."""
        kind = self.values.dtype if dtype is None else dtype
        return self.values.astype(kind, copy=bool(copy))

    def __str__(self) -> str:
        return str(self.measure)


class StoredOf(Mapping[str, Stored]):
    """Everything that was measured of one head, by name; read when asked for."""

    def __init__(self, held: Held, head: int) -> None:
        self._held, self._slot = held, held.slot(head)
        self._key_head = held.key_head(head)
        self.measures: dict[str, Measure] = {}  # known without reading any data
        place, some = held.place, self.measures
        for what in (*held.row_numbers, *_TOP):
            if what in held.runs:
                joins = "" if what in _TOP else held.kinds[what].joins
                how = _HOW.get(joins, joins or "first")
                some[what] = Measure("rows", held.runs[what].bin, how)
        if "value_norm" in held.runs:
            some["value_norm"] = Measure("keys", place.key_bin, "mean")
        if held.single("received"):
            some["received"] = Measure("keys", place.key_bin, "sum")
        if held.single("offsets"):
            some["offsets"] = Measure("distances", 1, "sum")
        if held.single("pooled") and place.pool_cell:
            some["pooled"] = Measure("cells", place.pool_cell, "mean")
        for what, kind in held.kinds.items():
            if kind.of not in ("rows", "head") and held.own_tensor(what) is not None:
                some[what] = Measure(kind.of, 0, kind.joins)

    def __getitem__(self, what: str) -> Stored:
        measure = self.measures[what]
        if measure.of == "rows":
            return self._by_row(what, measure)
        if what == "value_norm":
            run = self._held.runs[what]
            return Stored(run.numbers(self._key_head), measure, run.edges())
        if what == "received":
            keys = self._held.place.keys
            edges = np.append(np.arange(0, keys, measure.bin), keys)
            mass = self._found(what, self._held.columns(what))[self._slot]
            return Stored(mass.astype(np.float32), measure, edges)
        if what == "pooled":
            return Stored(self._found(what, self._held.pooled(self._slot)), measure)
        if what == "offsets":
            return self._offsets(measure)
        return Stored(self._found(what, self._held.own_tensor(what))[self._slot], measure)

    def __iter__(self) -> Iterator[str]:
        return iter(self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def _by_row(self, what: str, measure: Measure) -> Stored:
        run, stop = self._held.runs[what], self._held.rows.stop
        values = run.numbers(self._slot, stop)
        return Stored(values, measure, np.append(run.edges()[: len(values)], stop))

    def _offsets(self, measure: Measure) -> Stored:
        profile = self._held.profile()
        if profile is None:
            raise FileError(f"{self._held.place.label}: its offsets are gone")
        return Stored(profile.masses[self._slot].astype(np.float32), measure, profile.edges)

    def _found(self, what: str, found: Array | None) -> Array:
        if found is None:
            raise FileError(f"{self._held.place.label}: its {what} is gone")
        return found
