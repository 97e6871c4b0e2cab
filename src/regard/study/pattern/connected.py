"""Object-like: the patches that a row looks at hang together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from regard.axes import Grid
from regard.recording.stores import Array
from regard.study.chance import Trial, hoeffding
from regard.study.facts import HeadFacts
from regard.study.pattern.base import (
    Measure,
    OfWhatIsLeft,
    Pattern,
    RowValues,
    beyond_chance,
    unknown,
)
from regard.study.pattern.related import SHARPER

_MOST_ROWS: Final = 64  # of a head
_LEAST_MASS: Final = 0.1  # on a picture, for a row to be about it
_FEW: Final = 4  # patches: fewer hang together by themselves
_DRAWS: Final = 64
_STEPS: Final = 12  # sizes for which patches are drawn; between them a line is taken


class _Held(NamedTuple):
    """The rows that were looked at, (n,) each."""

    rows: Array
    shares: Array  # of the heaviest patches, in the largest piece
    chances: Array


class Connected(OfWhatIsLeft):
    """Of the heaviest patches that hold half of a row's mass on a picture, sinks left out: the
    share that is in the largest piece, patches being joined by their sides. Mean over at most 64
    rows that see the whole picture, give it a tenth of their mass, and look at 4 patches or more,
    which half of the rows have to do.

    Chance is the same share of as many patches drawn at random. A head that looks beside its own
    patch, along a line or at the border looks at patches that hang together, too: then that label
    says it better.
    """

    name = "object"

    def __init__(self, sharper: Sequence[Pattern]) -> None:
        self._sharper = sharper

    def measure(self, head: HeadFacts) -> Measure:
        """From rows that are computed."""
        if head.sample is None:
            return unknown("single rows were not kept: what hangs together needs their q and k")
        found, asked = self._held(head)
        if not found.rows.size:
            return Measure(0.0, conditional=math.nan, trial=Trial(0, 1.0))
        score, chance = float(found.shares.mean()), float(found.chances.mean())
        few = f"{found.rows.size} of {asked} rows look at {_FEW} patches or more; half needed"
        objection = few if 2 * found.rows.size < asked else ""
        if any(_explains(one, head) for one in self._sharper):
            objection = SHARPER
        trial = hoeffding(score, chance, int(found.rows.size))
        return Measure(
            score, chance, conditional=math.nan, trial=trial, objection=objection,
            detail={"sampled": int(found.rows.size)},
        )  # fmt: skip

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """The share of each row that was looked at."""
        if head.sample is None:
            return None
        (rows, shares, chances), _ = self._held(head)
        every = np.ones(rows.size, bool)
        return RowValues(rows, rows, shares, every, every, shares - chances)

    def _held(self, head: HeadFacts) -> tuple[_Held, int]:
        """The rows, and how many could have been among them."""
        found: tuple[_Held, int] = head.own(("held", self.name), lambda: _connected(head))
        return found


def _explains(pattern: Pattern, head: HeadFacts) -> bool:
    """Whether the rows' mass that is not on sinks, which this is about, is where the pattern says;
    its own label may lack mass."""
    found = pattern.measure(head)
    if found.unknown or not head.non_sink > 0:
        return False
    share = min(found.apart / head.non_sink, 1.0)
    return beyond_chance(share, found.chance) >= pattern.threshold


def _connected(head: HeadFacts) -> tuple[_Held, int]:
    patches, weights = head.place.patches, head.sample
    assert patches is not None and weights is not None
    parts, asked = [], 0
    seen = head.sample_seen
    kept = np.where(head.sinks.among(np.arange(weights.shape[1])), 0, weights)
    for start, grid in head.head.key_axis.grids():
        laid = grid.lay(np.arange(start, start + grid.count))  # (frames, h, w)
        for frame in laid:
            masses = kept[:, frame.ravel()].astype(np.float64)
            whole = np.ones(len(masses), bool) if seen is None else seen[:, frame.ravel()].all(1)
            about = np.flatnonzero(whole & (masses.sum(1) >= _LEAST_MASS))
            about = _spaced(about, _MOST_ROWS)
            asked += about.size
            parts.append(_of_picture(patches.rows[about], masses[about], grid))
    every = _Held(*(np.concatenate(one) for one in zip(*parts, strict=True)))
    chosen = _spaced(np.argsort(every.rows, kind="stable"), _MOST_ROWS)
    return _Held(*(one[chosen] for one in every)), max(min(asked, _MOST_ROWS), 1)


def _spaced(some: Array, most: int) -> Array:
    """At most so many, drawn by lot: every nth may all be patches of one column."""
    if some.size <= most:
        return some
    return np.sort(np.random.default_rng(0).choice(some, most, replace=False))


def _of_picture(rows: Array, masses: Array, grid: Grid) -> _Held:
    """(n, h·w) masses of rows on one picture."""
    order = np.argsort(-masses, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(masses, order, 1), axis=1)
    counts = 1 + (sums < sums[:, -1:] / 2).sum(1)
    marks = np.zeros(masses.shape, bool)
    np.put_along_axis(marks, order, np.arange(masses.shape[1]) < counts[:, None], 1)
    some = counts >= _FEW
    sizes = largest_piece(marks[some].reshape(-1, grid.height, grid.width))
    by_count = _by_chance(grid.height, grid.width)
    return _Held(rows[some], sizes / counts[some], np.interp(counts[some], *by_count))


def largest_piece(marks: Array) -> Array:
    """(n,): how many of the marked patches (n, h, w) are in the largest piece, joined by sides."""
    count, size = len(marks), int(np.prod(marks.shape[1:]))
    if not count:
        return np.zeros(0, np.int64)
    names = np.where(marks, np.arange(1, size + 1).reshape(marks.shape[1:]), 0)
    while True:  # every patch takes the largest name beside it, until pieces have one name each
        before = names
        wide = np.pad(names, ((0, 0), (1, 1), (1, 1)))
        beside = [wide[:, :-2, 1:-1], wide[:, 2:, 1:-1], wide[:, 1:-1, :-2], wide[:, 1:-1, 2:]]
        names = np.where(marks, np.maximum.reduce([names, *beside]), 0)
        if np.array_equal(names, before):
            break
    flat = names.reshape(count, -1) + np.arange(count)[:, None] * (size + 1)
    counted = np.bincount(flat.ravel(), minlength=count * (size + 1)).reshape(count, -1)
    found: Array = counted[:, 1:].max(1)
    return found


@lru_cache(maxsize=32)
def _by_chance(height: int, width: int) -> tuple[Array, Array]:
    """Some numbers of patches, and the mean share of so many random ones in their largest piece."""
    size, dice = height * width, np.random.default_rng(0)
    ladder = np.unique(np.geomspace(1, size, _STEPS).astype(int))
    ladder = np.unique(np.append(ladder, np.linspace(1, size, _STEPS).astype(int)))
    means = []
    for count in ladder.tolist():
        order = dice.random((_DRAWS, size)).argsort(1)
        marks = (order < count).reshape(_DRAWS, height, width)
        means.append(float(largest_piece(marks).mean()) / count)
    return ladder, np.array(means)
