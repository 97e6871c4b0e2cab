"""What a recording holds of one place: its note, doubted, and its tensors, put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import numpy as np

from regard.errors import FileError
from regard.mask import Extent, Verdict
from regard.recording.contents import UNKNOWN, Place, holds_sums, statistics_in, tensor_name
from regard.recording.doubt import check_columns, check_heavy, check_piece, check_place
from regard.recording.heavy import Heavy
from regard.recording.measures import COUNTS, KEPT_AS, KINDS, Kind, default_join
from regard.recording.offsets import Profile, add_profiles
from regard.recording.pieces import Run, Sorted, inner_name
from regard.recording.rules import Rules, not_here, rebuild
from regard.recording.store import Array, Listed, Store

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
