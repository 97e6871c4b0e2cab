"""Two recordings side by side: prompts, checkpoints, number formats or implementations.

Heads with q and k on both sides are compared row by row, a few rows at a time; of the others the
stored profiles are, which can agree where rows do not, and the result says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from regard.errors import InputError
from regard.recording import Head, PromptView, Recording
from regard.recording.stores import Array
from regard.study.align import Alignment, align, first_paired
from regard.study.divergence import js_distance
from regard.study.finding import as_number
from regard.study.heads import Recorded, opened, prompt_of
from regard.study.profiles import profile_distances

_RUN: Final = 16  # rows that are computed together
_ROUNDING: Final = 1e-4  # of a row's sum in float32


@dataclass(frozen=True)
class HeadDifference:
    """How far a head is from the head of the same name."""

    label: str
    distance: float  # 0 … 1: mean over rows, or the largest of the profiles'; NaN: not comparable
    how: Literal["rows", "profiles", "nothing"]
    rows: int = 0  # how many were compared
    worst: tuple[int, int] | None = None  # the rows (of a, of b) that differ most
    worst_distance: float = 0.0
    worst_token: str | None = None
    profiles: tuple[tuple[str, float], ...] = ()  # entropy in nats; received and offsets 0 … 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "label": self.label, "distance": as_number(self.distance), "how": self.how,
            "rows": self.rows, "worst_rows": None if self.worst is None else list(self.worst),
            "worst_distance": as_number(self.worst_distance), "worst_token": self.worst_token,
            "profiles": {name: as_number(value) for name, value in self.profiles},
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Every head that both have: those compared by rows first, the farthest apart first."""

    a: str
    b: str
    alignment: str  # how tokens were matched, in words
    heads: Sequence[HeadDifference]
    only_a: Sequence[str]
    only_b: Sequence[str]

    @property
    def largest(self) -> float:
        """The largest distance; 0 where nothing could be compared."""
        known = [one.distance for one in self.heads if np.isfinite(one.distance)]
        return max(known, default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "a": self.a, "b": self.b, "alignment": self.alignment, "largest": self.largest,
            "heads": [one.as_dict() for one in self.heads],
            "only_a": list(self.only_a), "only_b": list(self.only_b),
        }  # fmt: skip


def compare_recordings(
    a: Recording | Recorded,
    b: Recording | Recorded,
    *,
    prompts: tuple[int, int] = (0, 0),
    rows: int | None = 512,
    go_on: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Head by head, rows matched by their tokens. `rows` are compared of each head, spread evenly;
    None: all that can be. `go_on` is called before each head with how many are done and how many
    there are, and may raise."""
    if rows is not None and rows < 1:
        raise InputError(f"rows={rows}; give how many rows to compare, 1 or more, or None for all")
    left, right = opened(a), opened(b)
    views = prompt_of(left, prompts[0]), prompt_of(right, prompts[1])
    labels = [set(view.labels()) for view in views]
    shared = [label for label in views[0].labels() if label in labels[1]]
    if not shared:
        raise InputError(f"{left.name} and {right.name} have no head in common")
    pairs = _Pairs(views)
    found = []
    for done, label in enumerate(shared):
        go_on(done, len(shared))
        found.append(_difference(pairs, label, rows))
    found.sort(key=_order)
    only = [[one for one in view.labels() if one not in shared] for view in views]
    return Comparison(left.name, right.name, pairs.of(shared[0])[1].how, found, *only)


def _order(one: HeadDifference) -> tuple[int, float]:
    rank = ("rows", "profiles", "nothing").index(one.how)
    return rank, -one.distance if np.isfinite(one.distance) else 0.0


class _Pairs:
    """How the rows and keys of a place stand for each other, worked out once for each stream."""

    def __init__(self, views: tuple[PromptView, PromptView]) -> None:
        self.views = views
        self._known: dict[tuple[str, str, int, int], Alignment] = {}

    def of(self, label: str) -> tuple[Alignment, Alignment]:
        """Queries, keys."""
        a, b = (view[label].place for view in self.views)
        queries = self._align(a.query_tokens, b.query_tokens, (a.queries, b.queries))
        keys = self._align(a.key_tokens, b.key_tokens, (a.keys, b.keys))
        return queries, first_paired(keys)

    def _align(self, a: str, b: str, counts: tuple[int, int]) -> Alignment:
        key = a, b, *counts
        if key not in self._known:
            left, right = self.views
            self._known[key] = align(left.streams.get(a), right.streams.get(b), counts)
        return self._known[key]


def _difference(pairs: _Pairs, label: str, most: int | None) -> HeadDifference:
    heads = pairs.views[0][label], pairs.views[1][label]
    queries, keys = pairs.of(label)
    chosen = _chosen(heads, queries, most)
    if all(head.exact for head in heads) and chosen.size:
        return _by_rows(heads, queries, keys, chosen)
    profiles = profile_distances(heads, queries, keys)
    shares = [value for name, value in profiles if name != "entropy"]
    how: Literal["profiles", "nothing"] = "profiles" if shares else "nothing"
    return HeadDifference(label, max(shares, default=float("nan")), how, profiles=profiles)


def _chosen(heads: tuple[Head, Head], queries: Alignment, most: int | None) -> Array:
    """Which pairs of rows are compared: runs of neighbours, spread evenly."""
    kept = np.ones(len(queries), bool)
    for head, rows in zip(heads, (queries.a, queries.b), strict=True):
        kept &= (rows >= head.recorded.start) & (rows < head.recorded.stop)
    every = np.flatnonzero(kept)
    if most is None or every.size <= most:
        return every
    runs = every.size // _RUN
    picked = np.unique(np.linspace(0, runs - 1, max(most // _RUN, 1)).astype(np.int64))
    at: Array = (picked[:, None] * _RUN + np.arange(_RUN)).reshape(-1)
    return every[at[:most]]


def _by_rows(
    heads: tuple[Head, Head], queries: Alignment, keys: Alignment, chosen: Array
) -> HeadDifference:
    each = np.concatenate(list(_row_distances(heads, queries, keys, chosen)))
    at = int(np.argmax(each))
    worst = int(queries.a[chosen[at]]), int(queries.b[chosen[at]])
    texts = heads[0].query_tokens
    token = texts[worst[0]] if texts is not None and worst[0] < len(texts) else None
    return HeadDifference(
        heads[0].label, float(each.mean()), "rows", len(each), worst, float(each[at]), token
    )


def _row_distances(
    heads: tuple[Head, Head], queries: Alignment, keys: Alignment, chosen: Array
) -> Iterator[Array]:
    """The distances of a few rows at a time."""
    for start in range(0, chosen.size, 4 * _RUN):
        some = chosen[start : start + 4 * _RUN]
        sides = heads[0].rows(queries.a[some]), heads[1].rows(queries.b[some])
        yield _distances(sides, keys)


def _distances(sides: tuple[Array, Array], keys: Alignment) -> Array:
    """Keys without a partner count as apart. A learned sink is a key that both have: what a row
    lacks of 1 is its share."""
    sums = [side.sum(-1, dtype=np.float64) for side in sides]
    learned = [np.where(1 - total > _ROUNDING, 1 - total, 0) for total in sums]
    shared = sides
    if not keys.is_identity or sides[0].shape != sides[1].shape:
        shared = sides[0][:, keys.a], sides[1][:, keys.b]
    apart = np.zeros(len(sums[0]))
    for total, part in zip(sums, shared, strict=True):
        apart += np.maximum(total - part.sum(-1, dtype=np.float64), 0)
    p, q = (np.c_[part, extra] for part, extra in zip(shared, learned, strict=True))
    return js_distance(p, q, np.where(apart > _ROUNDING, apart, 0))
