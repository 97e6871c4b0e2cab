"""What a recording holds of one attention module: its note, doubted, its tensors, put together, and
what was measured of each head, with its bins and said in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from regard.errors import FileError
from regard.mask import Extent, Verdict
from regard.recording.measures import COUNTS, KEPT_AS, KINDS, Kind, default_join
from regard.recording.pieces import Run, Sorted, inner_name
from regard.recording.rules import Rules, not_here, rebuild
from regard.recording.schema import (
    UNKNOWN,
    Place,
    check_columns,
    check_heavy,
    check_piece,
    check_place,
    holds_sums,
    statistics_in,
    tensor_name,
)
from regard.recording.sinks import Heavy
from regard.recording.stores import Array, Listed, Store


class Profile(NamedTuple):
    """Mass by distance: bin b holds distances edges[b] … edges[b + 1] − 1."""

    masses: Array  # (H, bins) float64
    edges: Array  # (bins + 1,) int64, ascending


def add_profiles(label: str, found: Sequence[tuple[Array, Array]]) -> Profile:
    """The sum of masses (H, bins) with edges (bins + 1,), over the edges they share."""
    wide = [Profile(masses.astype(np.float64), edges.astype(np.int64)) for masses, edges in found]
    for masses, edges in wide:
        if masses.shape[1] + 1 != edges.size or np.any(edges[1:] <= edges[:-1]):
            raise FileError(f"{label}: offset_edges do not fit offsets, or do not ascend")
    total = wide[0]
    for more in wide[1:]:
        total = _added(total, more)
    return total


def _added(a: Profile, b: Profile) -> Profile:
    every = np.union1d(a.edges, b.edges)
    shared = every[_is_edge(every, a.edges) & _is_edge(every, b.edges)]
    total = np.zeros((a.masses.shape[0], max(shared.size - 1, 0)))
    for masses, edges in (a, b):
        at = np.searchsorted(shared, edges[:-1], side="right") - 1
        np.add.at(total.T, at, masses.T)
    return Profile(total, shared)


def _is_edge(places: Array, edges: Array) -> Array:
    """Where a profile has a bin's edge, or nothing at all."""
    outside = (places < edges[0]) | (places > edges[-1])
    return np.isin(places, edges) | outside


def mass_at(profile: Profile, distance: int) -> Array | None:
    """(H,): the mass at one distance; None where its bin holds others too."""
    masses, edges = profile
    at = int(np.searchsorted(edges, distance, side="right")) - 1
    if not 0 <= at < masses.shape[1]:
        return np.zeros(masses.shape[0])  # nobody stands so far apart
    return masses[:, at] if edges[at + 1] - edges[at] == 1 else None


_UNBINNED: Final = ("lse", "q", "k")
_COUNTS: Final = {*COUNTS, "sharp"}  # totals that count rows


class Held:
    """One place of one prompt. The note is checked when this is made; data when it is read."""

    def __init__(
        self,
        store: Store,
        pieces: Sorted,
        prompt: int,
        place: Place,
        tokens: Mapping[str, int],
    ) -> None:
        self.store, self.prompt, self.place = store, prompt, place
        self._why_not: dict[int, str] = {}
        self._pieces = pieces.get((prompt, place.label), {})
        self.kinds = KINDS | statistics_in(store.metadata)
        self.holds_sums = holds_sums(store.metadata)
        self.row_numbers = tuple(n for n, kind in self.kinds.items() if kind.of == "rows")
        self.kept_as = KEPT_AS | {kind.text: n for n, kind in self.kinds.items() if kind.text}
        self._by_row = (*self.row_numbers, "top_weights", "top_keys", "q")
        check_place(place)
        for what, found in self._pieces.items():
            for entries in found.values():
                for entry in entries:
                    check_piece(place, what, entry, is_number=what in self.row_numbers)
        self.runs = {
            what: self._run(what) for what in (*self._by_row, "k", "value_norm") if self._has(what)
        }
        if not place.keys and "q" in self.runs:  # a sequence without any key has no k
            none = Run(store, 0, 0, 1, (), (), inner=self.runs["q"].inner, most=None)
            self.runs.setdefault("k", none)
        tops = {self.runs[what].inner for what in ("top_weights", "top_keys") if self._has(what)}
        if len(tops) > 1 or (0,) in tops:
            raise FileError(f"{place.label}: top_weights and top_keys of {sorted(tops)} keys")
        self.rows = range(place.rows[0], self._last_row())
        self._check_sizes(tokens)

    # ── rows and keys ────────────────────────────────────────────────────────────────────────

    def _has(self, what: str) -> bool:
        return any(start is not None for start in self._pieces.get(what, ()))

    def _run(self, what: str) -> Run:
        place = self.place
        bins = {"k": 1, "value_norm": place.key_bin, "q": 1}
        bins |= {"top_weights": place.top_every, "top_keys": place.top_every}
        by_key = what in ("k", "value_norm")
        origin, limit = (0, place.keys) if by_key else place.rows
        kind = self.kinds.get(what)
        size = bins.get(what, place.row_bin) if kind is None or kind.is_binned else 1
        most = place.keys if what == "top_keys" else None
        is_sum = self.holds_sums and (what == "value_norm" or (kind is not None and kind.is_sum))
        return Run.of(self.store, self._pieces[what], origin, limit, size, most, is_sum)

    def _last_row(self) -> int:
        """Where the first of the row tensors ends: a recording may be unfinished or damaged."""
        ends = [self.runs[what].stop for what in self._by_row if what in self.runs]
        return min(ends, default=self.place.rows[0])

    def _check_sizes(self, tokens: Mapping[str, int]) -> None:
        """A few numbers cannot speak for millions of rows that nothing else shows."""
        place, runs = self.place, self.runs
        shown = [len(runs[what]) for what in _UNBINNED if what in runs]
        most = max([2**24, *shown, *tokens.values()])
        if place.queries > most or place.keys > max(most, self._key_evidence()):
            raise FileError(
                f"{place.label}: {place.queries} queries and {place.keys} keys, which its tensors "
                "do not bear out"
            )

    def _key_evidence(self) -> int:
        entries = [e for found in self._pieces.get("received", {}).values() for e in found]
        return max((e.shape[1] for e in entries), default=0)

    # ── whether cells can be computed ────────────────────────────────────────────────────────

    def why_not(self, head: int) -> str:
        """Why no cell of a head can be computed; "" where each can."""
        if head not in self._why_not:
            self._why_not[head] = self._reason(head)
        return self._why_not[head]

    def _reason(self, head: int) -> str:
        place = self.place
        if not place.exact:
            return place.why_not or "q and k were not kept"
        missing = [what for what in ("q", "k") if what not in self.runs]
        if missing:
            return f"{missing[0]} is missing (the recording is unfinished or damaged)"
        return self._gap(head)

    def _gap(self, head: int) -> str:
        """The first recorded row that no segment, or too few keys, speak for."""
        at, keys = self.rows.start, self.runs["k"].stop
        for n, segment in enumerate(self.place.segments):
            if segment.rows[1] <= at or at >= self.rows.stop:
                continue
            if segment.rows[0] > at:
                break
            if UNKNOWN in (segment.mask, segment.score):
                break
            if tag := not_here(segment.mask, segment.score):
                return f"its mask or score rule is a {tag!r}; import the module that defines it"
            if segment.keys[1] > keys and not self._hidden(head, n, keys):
                return f"k ends at key {keys} of {segment.keys[1]} (unfinished or damaged)"
            at = segment.rows[1]
        return "" if at >= self.rows.stop else f"nothing says what row {at} may see"

    def _hidden(self, head: int, segment: int, keys: int) -> bool:
        """Whether no recorded row of a segment may see the keys from `keys` on."""
        one, rules = self.place.segments[segment], self.rules(head, segment)
        rows = range(
            max(self.rows.start, one.rows[0]) - one.rows[0],
            min(self.rows.stop, one.rows[1]) - one.rows[0],
        )
        cols = range(max(keys, one.keys[0]) - one.keys[0], one.keys[1] - one.keys[0])
        if rules.mask is None:
            return not cols
        return rules.mask.verdict(rows, cols, rules.extent) is Verdict.NONE

    # ── tensors ──────────────────────────────────────────────────────────────────────────────

    def slot(self, head: int) -> int:
        """Where a head of the module stands among the recorded ones."""
        return self.place.heads.index(head)

    def key_head(self, head: int) -> int:
        """The key head that a query head shares."""
        return head // (self.place.total_heads // self.place.key_heads)

    def rules(self, head: int, segment: int) -> Rules:
        """What the rows of a segment may see, and how they score it."""
        one, place = self.place.segments[segment], self.place
        size = one.rows[1] - one.rows[0], one.keys[1] - one.keys[0]
        extent = Extent(*size, (), place.total_heads)
        arrays = [self._array(name) for name in one.arrays]
        return rebuild(one.mask, one.score, arrays, extent, head)

    def _array(self, name: str) -> Array:
        return self.store.array(self._entry(name).name)

    def _entry(self, name: str) -> Listed:
        """By its full name, or by what it is called within this place."""
        rank, inner = inner_name(name)
        for full in (name, rank + tensor_name(self.prompt, self.place.label, inner)):
            if full in self.store.entries:
                return self.store.entries[full]
        raise FileError(f"{self.place.label}: {name!r}, which a mask or score rule needs, is gone")

    @cached_property
    def masks_differ(self) -> bool:
        """Whether any mask or bias is a table of its own for each head."""
        names = {name for one in self.place.segments for name in one.arrays}
        shapes = [self._entry(name).shape for name in names]
        return any(len(shape) == 3 and shape[0] > 1 for shape in shapes)

    def single(self, what: str) -> list[Listed]:
        """The tensors without a start: one, or one per rank."""
        return self._pieces.get(what, {}).get(None, [])

    def columns(self, what: str) -> Array | None:
        """received (H, ⌈keys/key_bin⌉) or pooled (H, R, C), as stored; those of several ranks
        added."""
        entries = self.single(what)
        if not entries:
            return None
        check_columns(self.place, what, entries)
        if len(entries) == 1:
            return self.store.array(entries[0].name)
        total = np.zeros(tuple(np.max([e.shape for e in entries], axis=0)))
        for entry in entries:
            part = self.store.array(entry.name)
            total[tuple(slice(n) for n in part.shape)] += part
        return total

    def own_tensor(self, what: str) -> Array | None:
        """(H, …): a tensor of which only the file knows what it is; None where it is not of heads.
        Of several ranks, the lowest one's."""
        for entry in self.single(what)[:1]:
            if len(entry.shape) > 1 and entry.shape[0] == len(self.place.heads):
                return self.store.array(entry.name)
        return None

    def pooled_sums(self, slot: int | slice = slice(None)) -> Array | None:
        """(R, C) of one recorded head, or (H, R, C): the mass in each cell."""
        found = self.columns("pooled")
        if found is None or self.holds_sums:
            return None if found is None else found[slot]
        return found[slot] * self._areas

    def pooled(self, slot: int) -> Array | None:
        """(R, C) float32: the mean weight in each cell."""
        found = self.columns("pooled")
        if found is None or not self.holds_sums:
            return None if found is None else found[slot].astype(np.float32)
        return (found[slot] / self._areas.astype(np.float32)).astype(np.float32)

    @property
    def _areas(self) -> Array:
        return areas((self.place.queries, self.place.keys), self.place.pool_cell)

    def heavy(self, slot: int) -> Heavy:
        """A head's keys whose mass is known by itself."""
        return self._heavy[slot] if self._heavy else Heavy.none()

    @cached_property
    def _heavy(self) -> list[Heavy]:
        keys, masses = self.single("heavy_keys"), self.single("heavy_received")
        if not keys or len(keys) != len(masses):
            return []
        ranks = [
            (self.store.array(key.name).astype(np.int64), self.store.array(mass.name))
            for key, mass in zip(keys, masses, strict=True)
        ]
        for one in ranks:
            check_heavy(self.place, *one)
        heads = range(len(self.place.heads))
        return [Heavy.of_ranks([(key[n], mass[n]) for key, mass in ranks]) for n in heads]

    def profile(self) -> Profile | None:
        """Mass by distance: (H, bins) float64, and (bins + 1,) edges."""
        masses, edges = self.single("offsets"), self.single("offset_edges")
        if not masses:
            return None
        if len(masses) != len(edges):
            raise FileError(f"{self.place.label}: offsets without offset_edges")
        found = [
            (self.store.array(mass.name), self.store.array(edge.name))
            for mass, edge in zip(masses, edges, strict=True)
        ]
        return add_profiles(self.place.label, found)

    @cached_property
    def totals(self) -> dict[str, Array]:
        """(H,) float64 by name: over the rows of all ranks, joined as their kinds say."""
        found: dict[str, Array] = {}
        for entry in self.single("totals"):
            names = _names(entry)
            columns = self.store.array(entry.name).astype(np.float64)
            for name, column in zip(names, columns.T, strict=True):
                join = self.kinds.get(name, Kind(name, joins=default_join(name))).join
                found[name] = join(found[name], column) if name in found else column
        most = self.place.rows[1] - self.place.rows[0]
        for name in _COUNTS & found.keys():
            if not ((found[name] >= 0) & (found[name] <= most)).all():
                raise FileError(f"{self.place.label}: totals that count more than {most} rows")
        return found


def areas(shape: tuple[int, int], cell: int) -> Array:
    """(R, C): how much of the matrix lies in each cell × cell square."""
    sides = [np.minimum(np.arange(cell, n + cell, cell), n) - np.arange(0, n, cell) for n in shape]
    return sides[0][:, None] * sides[1]


def _names(entry: Listed) -> list[str]:
    """What the columns of totals are."""
    try:
        names = json.loads(entry.metadata.get("names", ""))
    except (ValueError, RecursionError):
        names = None
    fine = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not fine or len(names) != entry.shape[1]:
        raise FileError(f"{entry.name!r}: its metadata does not name its {entry.shape[1]} columns")
    return names


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

    def __contains__(self, what: object) -> bool:
        return what in self.measures  # a Mapping's own way would read the data

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
