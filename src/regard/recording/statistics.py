"""One number for each head: what all heads can be told apart by, whatever the budget kept.

They come from sums that were taken while recording, so that no q and k are needed. Masses are
shares of the rows that see any key, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from regard.errors import InputError
from regard.recording.layer import Held, mass_at
from regard.recording.measures import Kind, Span, shown_kinds
from regard.recording.pieces import Stream
from regard.recording.schema import Place, statistics_in
from regard.recording.sinks import find_sinks
from regard.recording.stores import Array
from regard.recording.visibility import Sight

_MOST_CELLS: Final = 2**28  # of a mask that has to be looked at cell by cell


class Statistic(NamedTuple):
    """What a number means."""

    words: str
    title: str  # a short name
    span: Span = "one"  # how far it ranges: see `surprise`


def statistic_kinds(metadata: Mapping[str, str]) -> dict[str, Statistic]:
    """Those of every recording, and those that one's notes declare."""
    kinds = shown_kinds(statistics_in(metadata))
    return {
        name: Statistic(kind.words, kind.shown_title, kind.span) for name, kind in kinds.items()
    }


STATISTICS: Final[dict[str, Statistic]] = statistic_kinds({})  # of every recording


def find_statistic(given: str, kinds: Mapping[str, Statistic]) -> str:
    """The name of a statistic that is given by its name or its title ("off sinks", "off-sinks");
    InputError where there is no such statistic."""
    if given in kinds:
        return given
    wanted = given.replace("-", " ").casefold()
    for name, kind in kinds.items():
        if kind.title == wanted:
            return name
    there = [n if n == kind.title else f"{kind.title} ({n})" for n, kind in kinds.items()]
    raise InputError(f"no statistic {given!r}; there are {', '.join(there)}")


class PlaceStatistics:
    """The statistics of the recorded heads of one place, (H,) each; NaN where they are not known.

    With `key_bin` > 1 sinks are known where no key but those that are summed by themselves can be
    one: no bin holds enough for another. The mass on delimiters is not known.
    """

    def __init__(self, held: Held, streams: Mapping[str, Stream]) -> None:
        self.held = held
        self._queries = streams.get(held.place.query_tokens)
        self._keys = streams.get(held.place.key_tokens)

    def __getitem__(self, name: str) -> Array:
        """(H,) float64."""
        return mean_from_sums(self.kind(name), *self.sums(name))

    def kind(self, name: str) -> Kind:
        """What the recording says of a statistic."""
        return self.held.kinds[name]

    def sums(self, name: str) -> tuple[Array, Array]:
        """(H,) each: what a statistic is the mean of, summed over rows, and how many rows those
        are; joined otherwise where its kind says so. Sums of several texts add."""
        ways: dict[str, Callable[[], tuple[Array, Array]]] = {
            "sink": lambda: (self._masses[0], self._rows),
            "non_sink": lambda: (self._masses[1], self._rows),
            "previous": lambda: self._at(1), "self": lambda: self._at(0),
            "delimiter": lambda: (self._delimiter(), self._rows),
            "delimiter_chance": self._delimiter_chance,
        }  # fmt: skip
        way = ways.get(name)
        return (self._total(name), self._counted(self.kind(name))) if way is None else way()

    def _counted(self, kind: Kind) -> Array:
        """(H,): the rows that a sum is divided by."""
        copies = {"copied_rows": 1, "followed_rows": 2}  # earlier, by at least so many tokens
        if kind.counts in copies:
            return self._with_copy(copies[kind.counts])
        return self._total(kind.counts)

    # ── from totals ──────────────────────────────────────────────────────────────────────────

    @property
    def _place(self) -> Place:
        return self.held.place

    def _total(self, name: str) -> Array:
        """(H,): as summed while recording; of a recording that was cut off, over what there is."""
        totals = self.held.totals
        return totals[name] if totals and name in totals else self._so_far(name)

    def _so_far(self, name: str) -> Array:
        rows, run = self.held.rows, self.held.runs.get(name)
        heads = range(len(self._place.heads))
        if name == "rows" and not self.held.totals:
            return np.full(len(heads), float(len(rows)))
        if run is None or self.held.totals:
            return np.full(len(heads), np.nan)
        kind, bins = self.kind(name), [run.numbers(n, rows.stop).astype(np.float64) for n in heads]
        if not kind.is_sum:
            return np.array([kind.over(one) for one in bins])
        lengths = np.diff(np.append(run.edges()[: len(bins[0])], rows.stop))
        return np.array([one @ lengths for one in bins])

    @property
    def _rows(self) -> Array:
        """(H,): rows that see any key."""
        return self._total("rows")

    def _with_copy(self, distance: int) -> Array:
        """(H,): recorded rows whose token stood at least so many places before."""
        rows, heads = self.held.rows, len(self._place.heads)
        first = None if self._queries is None else self._queries.first_seen
        if first is None or self._place.kind != "self" or first.size < rows.stop:
            return np.full(heads, np.nan)
        own = np.arange(rows.start, rows.stop)
        return np.full(heads, float(np.count_nonzero(first[own] <= own - distance)))

    # ── from the profile of distances ────────────────────────────────────────────────────────

    def _at(self, distance: int) -> tuple[Array, Array]:
        """Mass on the key so far back, and how many rows have one."""
        profile = self.held.profile()
        mass = None if profile is None else mass_at(profile, distance)
        if mass is None or self._place.kind != "self":
            return self._unknown, self._unknown
        without = max(min(distance, self.held.rows.stop) - self.held.rows.start, 0)
        return mass, self._rows - without

    @property
    def _unknown(self) -> Array:
        return np.full(len(self._place.heads), np.nan)

    # ── from the mass that keys received ─────────────────────────────────────────────────────

    @cached_property
    def _masses(self) -> tuple[Array, Array]:
        """Mass on sinks and on the others; a sum each, since 1 − a sink of 0.9999 is noise. NaN
        where a bin may hold a sink that is not known by itself."""
        received, sink, others = self.held.columns("received"), self._unknown, self._unknown
        if received is None:
            return sink, others
        seen = np.broadcast_to(self._seen, (len(received), self._place.keys))
        for slot, first in enumerate(self._total("first").tolist()):
            found = find_sinks(
                received[slot], seen[slot], len(self.held.rows), size=self._place.key_bin,
                first=first, heavy=self.held.heavy(slot) if self._place.key_bin > 1 else None,
            )  # fmt: skip
            if found is not None:
                sink[slot], others[slot] = found.mass, found.rest
        return sink, others

    @cached_property
    def _seen(self) -> Array:
        """(H or 1, keys): how many recorded rows see each key; all of them where no mask tells."""
        if not self._tells:
            return np.full((1, self._place.keys), len(self.held.rows))
        return np.stack([Sight(self.held, head).seen() for head in self._kinds])

    @cached_property
    def _tells(self) -> bool:
        """Whether the masks say who sees whom, and can be asked at a bearable price."""
        sight = Sight(self.held, self._place.heads[0])
        return sight.is_complete and sight.cells() <= _MOST_CELLS

    @property
    def _kinds(self) -> tuple[int, ...]:
        """A head of each kind of mask: one, or all where a table has heads."""
        heads = self._place.heads
        return heads if self.held.masks_differ else heads[:1]

    def _delimiter(self) -> Array:
        received, marks = self.held.columns("received"), self._marks
        if received is None or marks is None or self._place.key_bin > 1:
            return self._unknown
        return received[:, marks].sum(-1, dtype=np.float64)

    def _delimiter_chance(self) -> tuple[Array, Array]:
        marks, heads = self._marks, len(self._place.heads)
        if marks is None or not self._tells:
            return self._unknown, self._unknown
        found = []
        for head in self._kinds:
            sight = Sight(self.held, head)
            visible = sight.visible()
            share = _share(sight.among(marks.astype(np.int64)), visible)[visible > 0]
            found.append((share.sum(), float(share.size)))
        mass, count = np.array(found).T
        return np.broadcast_to(mass, heads).copy(), np.broadcast_to(count, heads).copy()

    @property
    def _marks(self) -> Array | None:
        """(keys,) booleans: which keys are delimiters."""
        if self._keys is None or len(self._keys) < self._place.keys:
            return None
        return self._keys.delimiters[: self._place.keys]


def mean_from_sums(kind: Kind, mass: Array, count: Array) -> Array:
    """The statistic of a place's heads (H,) out of its sums; NaN where it is not known."""
    if not kind.is_sum:
        return mass
    mean = _share(mass, count)
    if not kind.by_layer:
        return mean
    known = mean[np.isfinite(mean)]
    return _share(mean, np.full(mean.size, known.mean() if known.size else np.nan))


def _share(mass: Array, count: Array) -> Array:
    """mass ÷ count; NaN where nobody was counted."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, mass / np.where(count > 0, count, 1), np.nan)
