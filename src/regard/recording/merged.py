"""One number for each head over many texts: sums that add, and what they come to.

Every statistic is a mass divided by a number of rows, or a maximum. So texts merge by adding masses
and rows (of maxima, the larger), and the mean over all rows of all texts is exact: a long text
counts for as much as it has rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final

import numpy as np

from regard.display import ask
from regard.errors import FileError, InputError
from regard.recording.measures import Kind, shown_kinds
from regard.recording.prompt import PromptView
from regard.recording.schema import place_label, statistics_in
from regard.recording.statistics import (
    STATISTICS,
    PlaceStatistics,
    Statistic,
    find_statistic,
    mean_from_sums,
    statistic_kinds,
)
from regard.recording.stores import Array, Listed, Store
from regard.tidy import TidyTable

MERGED_NOTE: Final = "merged"
_MOST_LAYERS: Final = 4096  # more than so many of these are not believed
_MOST_HEADS: Final = 2**16


@dataclass(frozen=True)
class PlaceSums:
    """The sums of one module's recorded heads: S statistics, in the order of `kinds`."""

    kinds: tuple[Kind, ...]
    stack: str
    layer: int
    heads: tuple[int, ...]
    total_heads: int
    _: KW_ONLY
    masses: Array  # (S, H) float64: sums over rows, or what else their kinds join to
    counts: Array  # (S, H) float64: over how many rows; 0 where a text does not know

    @property
    def label(self) -> str:
        """`L5`, or `cross.L5`."""
        return place_label(self.stack, self.layer)

    def __add__(self, other: PlaceSums) -> PlaceSums:
        if (self.heads, self.total_heads) != (other.heads, other.total_heads):
            raise InputError(
                f"{self.label}: heads {_some(self)} in one text and {_some(other)} in another; "
                "merge recordings of the same heads"
            )
        if self.names != other.names:
            odd = sorted(set(self.names) ^ set(other.names))
            raise InputError(f"{self.label}: only some of the texts have {', '.join(odd)}")
        joined = [
            k.join(*pair) for k, *pair in zip(self.kinds, self.masses, other.masses, strict=True)
        ]
        # what one text alone knows is known, however it would join
        masses = np.where(other.counts > 0, np.stack(joined), self.masses)
        masses = np.where(self.counts > 0, masses, other.masses)
        return replace(self, masses=masses, counts=self.counts + other.counts)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the statistics."""
        return tuple(kind.name for kind in self.kinds)

    def number(self, statistic: str) -> Array:
        """(H,): the statistic over all texts; NaN where none knows it."""
        at = self.names.index(statistic)
        found = mean_from_sums(self.kinds[at], self.masses[at], self.counts[at])
        return np.where(self.counts[at] > 0, found, np.nan)

    def rows(self, statistic: str) -> Array:
        """(H,): over how many rows a statistic was taken."""
        return self.counts[self.names.index(statistic)]


@dataclass(frozen=True)
class Merged:
    """Per-head statistics over several texts. `a + b` merges two, exactly."""

    documents: int = 0
    tokens: int = 0
    keys: int = 0  # the most that a row of any text could see
    places: Mapping[str, PlaceSums] = field(default_factory=dict)  # by label
    statistic_kinds: Mapping[str, Statistic] = field(default_factory=lambda: STATISTICS)

    def __add__(self, other: Merged) -> Merged:
        places = dict(self.places)
        for label, more in other.places.items():
            places[label] = places[label] + more if label in places else more
        return Merged(
            self.documents + other.documents,
            self.tokens + other.tokens,
            max(self.keys, other.keys),
            places,
            {**self.statistic_kinds, **other.statistic_kinds},
        )

    @property
    def stacks(self) -> dict[str, tuple[int, int]]:
        """Each stack's (layers, heads); a model with one stack has the stack ""."""
        found: dict[str, tuple[int, int]] = {}
        for place in self.places.values():
            layers, heads = found.get(place.stack, (0, 0))
            found[place.stack] = max(layers, place.layer + 1), max(heads, place.total_heads)
        return found

    def labels(self) -> list[str]:
        """Every head: L0H0, L0H1 …"""
        return [f"{label}H{head}" for label, place in self.places.items() for head in place.heads]

    def grid(self, statistic: str, stack: str | None = None) -> Array:
        """(layers, heads) float64 of one of `statistic_kinds`; NaN where it is not known."""
        wanted = find_statistic(statistic, self.statistic_kinds)
        return self._laid_out(stack, lambda place: place.number(wanted), np.nan)

    def rows(self, statistic: str, stack: str | None = None) -> Array:
        """(layers, heads): over how many rows a statistic was taken."""
        wanted = find_statistic(statistic, self.statistic_kinds)
        return self._laid_out(stack, lambda place: place.rows(wanted), 0.0)

    def numbers(self) -> dict[str, Array]:
        """(heads,) of each statistic, in the order of `labels()`."""
        every = self.places.values()
        return {n: _joined([place.number(n) for place in every]) for n in self.statistic_kinds}

    def counted(self, statistic: str) -> Array:
        """(heads,): over how many rows a statistic was taken, in the order of `labels()`."""
        wanted = find_statistic(statistic, self.statistic_kinds)
        return _joined([place.rows(wanted) for place in self.places.values()])

    def table(self, *, heads: str | Sequence[str] | None = None) -> TidyTable:
        """One line a head, as `Recording.table("merged")`."""
        return ask("table", self, heads=heads)

    def _laid_out(self, stack: str | None, of: Any, empty: float) -> Array:
        name = self._stack(stack)
        found = np.full(self.stacks[name], empty)
        for place in self.places.values():
            if place.stack == name:
                found[place.layer, list(place.heads)] = of(place)
        return found

    def _stack(self, name: str | None) -> str:
        names = list(self.stacks)
        if not name and len(names) == 1:
            return names[0]
        if (name or "") not in names:
            have = ", ".join(one or "one without a name" for one in names) or "none"
            raise InputError(f"there is no stack {name or ''!r}; there are {have}")
        return name or ""


def merge_prompts(prompts: Iterable[PromptView]) -> Merged:
    """The statistics of several texts as one."""
    total = Merged()
    for one in prompts:
        total += _sums_of(one)
    return total


def _sums_of(prompt: PromptView) -> Merged:
    places = {}
    for label, place in prompt.places.items():
        kinds, masses, counts = _sums(prompt.statistics(label), prompt.statistic_kinds)
        places[label] = PlaceSums(
            kinds, place.stack, place.layer, place.heads, place.total_heads,
            masses=masses, counts=counts,
        )  # fmt: skip
    keys = max((place.keys for place in prompt.places.values()), default=0)
    return Merged(1, prompt.note.tokens, keys, places, prompt.statistic_kinds)


def _sums(found: PlaceStatistics, names: Iterable[str]) -> tuple[tuple[Kind, ...], Array, Array]:
    """S kinds, and (S, H) masses and counts; what a text does not know adds nothing."""
    kinds, pairs = tuple(map(found.kind, names)), [found.sums(name) for name in names]
    masses, counts = (np.stack([np.asarray(p[n], np.float64) for p in pairs]) for n in (0, 1))
    is_known = ~(np.isnan(masses) | np.isnan(counts)) & (counts > 0)
    nothing = np.array([[kind.nothing] for kind in kinds])
    return kinds, np.where(is_known, masses, nothing), np.where(is_known, counts, 0.0)


# ── in a file ────────────────────────────────────────────────────────────────────────────────


def written(merged: Merged) -> tuple[str, dict[str, Array]]:
    """As a recording keeps it: a note, and one tensor (2, S, H) a place by name."""
    places = [
        {"stack": p.stack, "layer": p.layer, "heads": p.heads, "total_heads": p.total_heads}
        for p in merged.places.values()
    ]
    facts = {
        "documents": merged.documents, "tokens": merged.tokens, "keys": merged.keys,
        "statistics": tuple(merged.statistic_kinds), "places": places,
    }  # fmt: skip
    tensors = {
        f"{MERGED_NOTE}/{label}": np.stack([place.masses, place.counts])
        for label, place in merged.places.items()
    }
    return json.dumps(facts), tensors


def read_merged(store: Store) -> Merged | None:
    """What a recording keeps of it; None where it keeps nothing, or other statistics than these."""
    text = store.metadata.get(MERGED_NOTE)
    if text is None:
        return None
    try:
        facts = json.loads(text)
        kinds = shown_kinds(statistics_in(store.metadata))
        if facts["statistics"] != list(kinds):
            return None  # of another version: they are computed again
        documents, tokens, keys = (_count(facts[key]) for key in ("documents", "tokens", "keys"))
        places = [_place(store, one, tuple(kinds.values())) for one in facts["places"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FileError(f"the note {MERGED_NOTE!r} does not say what it should") from None
    said = statistic_kinds(store.metadata)
    return Merged(documents, tokens, keys, {one.label: one for one in places}, said)


def _place(store: Store, facts: Mapping[str, Any], kinds: tuple[Kind, ...]) -> PlaceSums:
    heads = tuple(_count(head) for head in facts["heads"])
    layer, total = _count(facts["layer"]), _count(facts["total_heads"])
    fine = sorted(set(heads)) == list(heads) and heads and heads[-1] < total <= _MOST_HEADS
    if not fine or layer >= _MOST_LAYERS or not isinstance(facts["stack"], str):
        raise ValueError(facts)
    label = place_label(facts["stack"], layer)
    entry: Listed | None = store.entries.get(f"{MERGED_NOTE}/{label}")
    if entry is None or entry.dtype != "F64" or entry.shape != (2, len(kinds), len(heads)):
        raise FileError(f"{label}: its merged statistics are gone, or of another shape")
    masses, counts = store.array(entry.name)
    return PlaceSums(kinds, facts["stack"], layer, heads, total, masses=masses, counts=counts)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(value)
    return value


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)


def _some(place: PlaceSums) -> str:
    return f"{', '.join(map(str, place.heads[:8]))} of {place.total_heads}"
