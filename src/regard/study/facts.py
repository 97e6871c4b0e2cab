"""What the patterns are told by: everything a recording holds of a place and of one of its heads.

All of it was summed up while recording, so it is there for every head, with or without q and k, and
costs no more than reading it: linear in the number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from regard.recording import Head, PromptView, Stream
from regard.recording.layer import Profile
from regard.recording.sinks import (
    SINK,
    UNKNOWN_SINKS,
    Sinks,
    Tops,
    few_rows,
    find_sinks,
    sinks_from_lists,
)
from regard.recording.stores import Array
from regard.recording.visibility import Sight, VisibleSpans, seen_cells, visible_spans
from regard.study.chance import tokens_apart
from regard.study.patches import PatchFacts

_MOST_CELLS: Final = 2**28  # of a mask that has to be looked at cell by cell
_LEARNED: Final = 1e-3  # mass that no key got, beyond rounding
_ENOUGH: Final = 16  # rows that sinks can be judged by


class RowNumbers(NamedTuple):
    """One number for rows first[n] … last[n], which are one row where rows are not binned."""

    first: Array
    last: Array
    values: Array


class ByDistance(NamedTuple):
    """A head's mass by distance i − j."""

    masses: Array  # (bins,): summed over the rows
    edges: Array  # (bins + 1,)
    rows: Array  # ascending: those it was summed over
    blind: float  # … of which so many see no key at all


class PlaceFacts:
    """One attention module."""

    def __init__(self, prompt: PromptView, label: str) -> None:
        self.prompt, self.place = prompt, prompt.places[label]
        self.statistics = prompt.statistics(label)
        self.held = self.statistics.held
        self.rows = self.held.rows

    def heads(self) -> Iterator[HeadFacts]:
        """Its recorded heads."""
        return (HeadFacts(self, slot) for slot in range(len(self.place.heads)))

    @property
    def few(self) -> int:
        """So many rows have to share a key or a distance before it is believed."""
        return few_rows(len(self.rows))

    @cached_property
    def received(self) -> Array | None:
        """(H, bins): mass that each key, or bin of keys, got."""
        return self.held.columns("received")

    def seen(self, slot: int) -> Array:
        """(keys,): how many of the rows see each key; all of them where no mask tells."""
        found: Array = self._seen[self.kind(slot) if len(self._seen) > 1 else 0]
        return found

    @cached_property
    def _seen(self) -> Array:
        """(H or 1, keys)."""
        sights = [Sight(self.held, head) for head in self._kinds]
        told = sights[0].is_complete and sights[0].cells() <= _MOST_CELLS
        if not told:
            return np.full((1, self.place.keys), len(self.rows))
        return np.stack([one.seen() for one in sights])

    @property
    def _kinds(self) -> tuple[int, ...]:
        """A head of each kind of mask: one, or all where a table has heads."""
        heads = self.place.heads
        return heads if self.held.masks_differ else heads[:1]

    def kind(self, slot: int) -> int:
        """Which kind of mask a head has."""
        return slot if len(self._kinds) > 1 else 0

    def reach(self, slot: int) -> VisibleSpans | None:
        """What a head's rows may see."""
        return self._reaches[self.kind(slot)]

    @cached_property
    def _reaches(self) -> list[VisibleSpans | None]:
        return [visible_spans(self.held, head) for head in self._kinds]

    @cached_property
    def profile(self) -> Profile | None:
        """Mass by distance; none in cross-attention, where distance means nothing."""
        return self.held.profile() if self.place.kind == "self" else None

    @cached_property
    def patches(self) -> PatchFacts | None:
        """Where its keys lie in pictures; None where they are all of one kind: a text, a sound."""
        keys = self.prompt.axes(self.place.label)[1]
        return PatchFacts(self) if keys.grids() or len({type(p) for p in keys.parts}) > 1 else None

    @cached_property
    def told(self) -> Array:
        """(R,) booleans: the rows that patterns of distance are about: all; where a picture stands
        within a text its tokens, not the patches, of the rows that are computed."""
        if self.patches is None or not self.patches.keys.text.any():
            return np.ones(len(self.rows), bool)
        return self.patches.spread(self.patches.queries.text[self.patches.rows])

    def stream(self, name: str, count: int) -> Stream | None:
        """The tokens, where there are enough of them."""
        found = self.prompt.streams.get(name)
        return found if found is not None and len(found) >= count else None

    @cached_property
    def ids(self) -> Array | None:
        """(keys,) the tokens of a self-attention."""
        found = self.stream(self.place.key_tokens, self.place.keys)
        if self.place.kind != "self" or found is None or found.ids.size < self.place.keys:
            return None
        return found.ids[: self.place.keys]

    @cached_property
    def row_tokens(self) -> Array | None:
        """(R, 2): the token before each row's own (−1 of the first), and its own; None where they
        are not known, or not all of them words."""
        if self.ids is None or self.patches is not None or self.rows.stop > self.ids.size:
            return None
        pairs = np.stack([np.append(-1, self.ids[:-1]), self.ids], -1)
        return pairs[self.rows.start : self.rows.stop]

    @cached_property
    def texts(self) -> list[str] | None:
        """The texts of the keys' tokens."""
        found = self.stream(self.place.key_tokens, self.place.keys)
        return found.tokens if found is not None and len(found.tokens) >= self.place.keys else None

    @cached_property
    def delimiters(self) -> Array | None:
        """(keys,) booleans: punctuation and line breaks."""
        found = self.stream(self.place.key_tokens, self.place.keys)
        marks = None if found is None else found.delimiters[: self.place.keys]
        return marks if marks is None or self.patches is None else marks & self.patches.keys.text

    def statistic(self, name: str) -> Array:
        """(H,) of `STATISTICS`."""
        found: Array = self.once(name, lambda: self.statistics[name])
        return found

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is the same for several heads, made for the first of them."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}


class HeadFacts:
    """One head of it."""

    def __init__(self, place: PlaceFacts, slot: int) -> None:
        self.place, self.slot = place, slot
        self.number = place.place.heads[slot]
        self.label = f"{place.place.label}H{self.number}"

    @cached_property
    def head(self) -> Head:
        """The head itself, for single rows."""
        return self.place.prompt[self.label]

    def total(self, name: str) -> float:
        """A sum over the rows; NaN where it was not taken."""
        found = self.place.held.totals.get(name)
        return float("nan") if found is None else float(found[self.slot])

    def statistic(self, name: str) -> float:
        """One of `STATISTICS`."""
        return float(self.place.statistic(name)[self.slot])

    def has(self, what: str) -> bool:
        """Whether it was measured row by row."""
        return what in self.place.held.runs

    @cached_property
    def rows(self) -> float:
        """How many rows see any key."""
        return self.total("rows")

    @property
    def reach(self) -> VisibleSpans | None:
        """What its rows may see."""
        return self.place.reach(self.slot)

    def tokens_apart(self, marks: Array, others: Array) -> float:
        """The probability that the marked keys (keys,) get so much more than others by chance: 0
        where single keys were not kept, or there are no others."""
        if self.lifts is None or not others.any() or self.place.place.keys != marks.size:
            return 0.0
        ids = np.arange(marks.size) if self.place.ids is None else self.place.ids
        return tokens_apart(self.lifts, ids, marks, others)

    @property
    def lifts(self) -> Array | None:
        """(keys, 2) float64: what each key received, and what an even spread over the visible keys
        would give it; None where single keys were not kept."""
        if self.received is None or self.place.place.key_bin > 1:
            return None
        even: Array = self.once("even shares", self._even)
        return np.stack([self.received, even], -1)

    def _even(self) -> Array:
        keys, reach = self.place.place.keys, self.reach
        if reach is None:
            return np.full(keys, len(self.place.rows) / keys)
        return reach.even(keys)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is the same for heads that see the same, made for the first of them."""
        return self.place.once((self.place.kind(self.slot), key), make)

    def own(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is the head's alone, made once."""
        if key not in self._own:
            self._own[key] = make()
        return self._own[key]

    @cached_property
    def _own(self) -> dict[Hashable, Any]:
        return {}

    # ── rows that are computed ───────────────────────────────────────────────────────────────

    @cached_property
    def sample(self) -> Array | None:
        """(n, keys): the weights of the rows `place.patches.rows`; None without q and k."""
        patches = self.place.patches
        if patches is None or not self.head.exact:
            return None
        found: Array = self.head.rows(patches.rows)
        return found

    @property
    def sample_seen(self) -> Array | None:
        """(n, keys) booleans: which keys those rows may see; None where masks do not tell."""
        found: Array | None = self.once("sample seen", self._seen_in_sample)
        return found

    def _seen_in_sample(self) -> Array | None:
        patches, sight = self.place.patches, Sight(self.place.held, self.number)
        if patches is None or not sight.is_complete:
            return None
        return seen_cells(sight, patches.rows, np.arange(self.place.place.keys))

    @cached_property
    def by_distance(self) -> ByDistance | None:
        """Mass by distance: of all rows as it was summed while recording; where a picture stands
        within the text, of its tokens alone, which are computed. None where neither can be."""
        place = self.place
        if place.place.kind != "self" or not self.rows > 0:
            return None
        if place.patches is None or not place.patches.keys.text.any():
            profile = place.profile
            rows = np.arange(place.rows.start, place.rows.stop)
            found = None if profile is None else (profile.masses[self.slot], profile.edges)
            return None if found is None else ByDistance(*found, rows, len(rows) - self.rows)
        if self.sample is None:
            return None
        some = place.patches.queries.text[place.patches.rows]
        rows, keys = place.patches.rows[some], place.place.keys
        away = rows[:, None] - np.arange(keys) + keys - 1
        masses = np.bincount(
            away.ravel(), self.sample[some].ravel(), place.place.queries + keys - 1
        )
        return ByDistance(masses, np.arange(1 - keys, place.place.queries + 1), rows, 0)

    # ── sinks ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def received(self) -> Array | None:
        """(bins,) float64: mass that each key got."""
        every = self.place.received
        return None if every is None else every[self.slot].astype(np.float64)

    @cached_property
    def sinks(self) -> Sinks:
        """Which keys are sinks; not known where nothing tells."""
        place, got, heavy = self.place.place, self.received, None
        if got is None or not self.rows > 0:
            return UNKNOWN_SINKS
        if place.key_bin > 1:
            heavy = self.place.held.heavy(self.slot)
        found = find_sinks(
            got, self.place.seen(self.slot), len(self.place.rows), count=self.rows,
            size=place.key_bin, first=self.total("first"), heavy=heavy,
        )  # fmt: skip
        if found is None and self.tops is not None and len(self.tops.rows) >= _ENOUGH:
            return sinks_from_lists(self.tops, self.reach, place.keys, self.learned_sink)
        return found or UNKNOWN_SINKS

    @property
    def sinks_unknown(self) -> str:
        """Why sinks are not known."""
        if self.received is None or not self.rows > 0:
            return "the mass that keys received was not kept"
        size = self.place.place.key_bin
        return f"keys are binned by {size} in this recording: too few bins to tell sinks"

    @cached_property
    def learned_sink(self) -> float:
        """Mean mass that went to no key at all: a sink that was learned as a number."""
        if self.received is None or not self.rows > 0:
            return 0.0
        missing = 1 - float(self.received.sum()) / self.rows
        return missing if missing > _LEARNED else 0.0

    @property
    def sink(self) -> float:
        """Mean mass on sinks, a learned one included where it gets as much as a key has to."""
        return self.sinks.mass + (self.learned_sink if self.learned_sink > SINK else 0.0)

    @property
    def non_sink(self) -> float:
        """Mean mass on all other keys."""
        return self.sinks.rest

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def numbers(self, name: str) -> RowNumbers | None:
        """What was measured row by row, or by bins of rows."""
        if not self.has(name):
            return None
        stored = self.head.stored[name]
        assert stored.edges is not None  # row numbers always say which rows they are of
        edges = stored.edges.astype(np.int64)
        return RowNumbers(edges[:-1], edges[1:] - 1, stored.values.astype(np.float64))

    @cached_property
    def tops(self) -> Tops | None:
        """The heaviest keys of every row, or of some."""
        keys, weights = self.numbers("top_keys"), self.numbers("top_weights")
        if keys is None or weights is None or len(keys.values) != len(weights.values):
            return None
        return Tops(keys.first, keys.values.astype(np.int64), weights.values)

    @cached_property
    def sink_of_rows(self) -> Array | None:
        """(R,): each row's mass on sinks, as far as they are among its heaviest keys; None where
        not every row is listed."""
        if self.tops is None or len(self.tops.rows) != len(self.place.rows):
            return None
        mass: Array = np.where(self.sinks.among(self.tops.keys), self.tops.weights, 0).sum(-1)
        return mass
