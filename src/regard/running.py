"""Rows on their way through their keys: online softmax, and every sum that is taken along.

With m the largest score of a row so far, u = s − m, δ = m_old − m_new and a = exp δ:

    Σ e^u        becomes a·(Σ e^u)                    + the tile's
    Σ e^u u      becomes a·(Σ e^u u + δ Σ e^u)        + the tile's
    Σ (e^u)²     becomes a²·Σ (e^u)²                  + the tile's

The arrays are torch's in `engine/backends/tiled` and numpy's where a recording is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal, NamedTuple, Protocol

from regard.arrays import amax, cast, filled, library, padded, where


@dataclass(frozen=True)
class Step:
    """One tile (…, R, C) on its way through a sweep; what it has outside the matrix is hidden."""

    scores: Any  # final scores, −∞ where hidden
    scaled: Any  # before cap and bias
    above: Any  # scores − the largest so far
    p: Any  # e^above
    i: Any  # (r,) the queries, those inside the matrix
    j: Any  # (c,) the keys
    position: Any  # query i stands at key i + position: a number, or one each (r,)
    shrink: Any  # (…, R): a, which turns the sums so far into such of the new maximum
    delta: Any  # (…, R): δ

    @cached_property
    def u(self) -> Any:
        """log p, 0 where p is 0: 0·(−∞) = 0."""
        return where(self.p == 0, 0.0, self.above)

    @property
    def distance(self) -> Any:
        """(R, C): |i − j|, query i at its key position."""
        return self.outside(abs((self.i + self.position)[:, None] - self.j[None, :]))

    def outside(self, array: Any) -> Any:
        """(…, r, c) → (…, R, C), with 0 or False."""
        return padded(array, tuple(self.p.shape[-2:]))


@dataclass(frozen=True)
class RunningSum:
    """Something summed over the keys of a row by online softmax.

    term    (…, R): what a tile adds
    carry   what the sum so far becomes when the row's maximum rises: δ = old − new, a = e^δ; it is
            given all sums so far, those in `needs` among them
    sink    what the sink adds, from e^u and u of its score; None where it is no key to this sum
    """

    name: str
    term: Callable[[Step], Any]
    carry: Callable[[Mapping[str, Any], Any, Any], Any]
    needs: tuple[str, ...] = ()
    sink: Callable[[Any, Any], Any] | None = None
    join: Literal["sum", "max"] = "sum"
    whole: bool = False  # counts


def _second(sums: Mapping[str, Any], a: Any, d: Any) -> Any:
    return a * (sums["second"] + 2 * d * sums["centred"] + d * d * sums["total"])


SUMS: dict[str, RunningSum] = {
    one.name: one
    for one in (
        RunningSum(
            "total", lambda t: t.p.sum(-1), lambda sums, a, d: a * sums["total"],
            sink=lambda p, u: p,
        ),
        RunningSum(
            "centred", lambda t: (t.p * t.u).sum(-1),
            lambda sums, a, d: a * (sums["centred"] + d * sums["total"]),
            ("total",), lambda p, u: p * u,
        ),
        RunningSum(
            "second", lambda t: (t.p * t.u * t.u).sum(-1), _second, ("total", "centred"),
            lambda p, u: p * u * u,
        ),
        RunningSum(
            "squares", lambda t: (t.p * t.p).sum(-1), lambda sums, a, d: (a * a) * sums["squares"]
        ),
        RunningSum(
            "scaled", lambda t: amax(where(t.scores == -inf, -inf, t.scaled)),
            lambda sums, a, d: sums["scaled"], join="max",
        ),
        RunningSum(
            "largest", lambda t: amax(t.scores), lambda sums, a, d: sums["largest"], join="max"
        ),
        RunningSum(
            "visible", lambda t: (t.scores != -inf).sum(-1),
            lambda sums, a, d: sums["visible"], whole=True,
        ),
    )
}  # fmt: skip


class Sums(Mapping[str, Any]):
    """The finished sums of some rows, the sink in those that count it.

    log      log of `total`; 0 in rows that see nothing
    weight   what e^u of a key is worth as a weight, so that Σ p f = weight · Σ e^u f
    """

    def __init__(self, values: Mapping[str, Any], log: Any, weight: Any) -> None:
        self._values, self.log, self.weight = values, log, weight

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Summed(Protocol):
    """Whatever is made of running sums."""

    def running_sums(self) -> tuple[RunningSum, ...]:
        """What a sweep has to bring."""


def sums_for(statistics: Sequence[Summed]) -> tuple[RunningSum, ...]:
    """The sums a sweep has to bring for these, `total` first, each once and after what it needs."""
    found = {"total": SUMS["total"]}

    def add(one: RunningSum) -> None:
        for name in one.needs:
            add(SUMS[name])
        found.setdefault(one.name, one)

    for statistic in statistics:
        for one in statistic.running_sums():
            add(one)
    return tuple(found.values())


class FinishedRows(NamedTuple):
    """Some rows at the end of their keys, the sink among them.

    lse = peak + log is their own; `weight` and `divide` turn sums relative to the largest score of
    the keys into weights: by the lse that was given, else `divide` by the total itself.
    """

    peak: Any  # −∞ where nothing was seen
    log: Any
    sums: Sums
    divide: Any
    to_peak: Any  # the lse that weights are taken by
    to_log: Any

    def weights(self, scores: Any) -> Any:
        """exp(score − lse) of final scores (…, R, n); 0 in rows that see nothing."""
        nothing = (self.to_peak == -inf)[..., None]
        p = library(scores).exp((scores - self.to_peak[..., None]) - self.to_log[..., None])
        return where(nothing, 0.0, p)


class RunningRows:
    """The largest score of each row (*lead,) so far, and the sums.

    like   an array in whose library and dtype scores come
    wide   one in whose dtype sums are kept
    """

    def __init__(self, sums: Sequence[RunningSum], lead: tuple[int, ...], like: Any, wide: Any):
        self.running = sums
        self.peak = filled(like, lead, -inf)
        self.sums = {
            one.name: filled(wide, lead, -inf if one.join == "max" else 0, whole=one.whole)
            for one in sums
        }

    def fold(self, scores: Any, scaled: Any, i: Any, j: Any, position: Any) -> Step:
        """One more tile (*lead, C) of final scores, −∞ where hidden."""
        xp = library(scores)
        peak = xp.maximum(self.peak, amax(scores))
        base = where(peak == -inf, 0.0, peak)  # rows that have seen nothing yet
        shrink, delta = self._shrunk(base)
        above = scores - base[..., None]
        step = Step(scores, scaled, above, xp.exp(above), i, j, position, shrink, delta)
        self.sums = {one.name: self._next(one, step) for one in self.running}
        self.peak = peak
        return step

    def _shrunk(self, base: Any) -> tuple[Any, Any]:
        """a and δ, where the largest score becomes `base`."""
        unseen = self.peak == -inf
        delta = where(unseen, 0.0, cast(self.peak - base, self.sums["total"]))
        return where(unseen, 0.0, library(delta).exp(delta)), delta

    def _next(self, one: RunningSum, step: Step) -> Any:
        carried, term = one.carry(self.sums, step.shrink, step.delta), one.term(step)
        return carried + term if one.join == "sum" else library(term).maximum(carried, term)

    def finish(self, sink: Any = None, given: tuple[Any, Any] | None = None) -> FinishedRows:
        """Add the sink's scores (*lead,); weights by one's own total, or by the lse that is given
        as peak and log."""
        peak, sums, shrink = self.peak, self.sums, None
        if sink is not None:
            xp = library(peak)
            peak = xp.maximum(peak, sink)
            base = where(peak == -inf, 0.0, peak)
            shrink, delta = self._shrunk(base)
            extra = xp.exp(sink - base)
            gap = where(extra > 0, sink - base, 0.0)
            sums = {
                one.name: self.sums[one.name]
                if one.sink is None
                else one.carry(self.sums, shrink, delta) + one.sink(extra, gap)
                for one in self.running
            }
        total = sums["total"]
        xp = library(total)
        log = xp.log(where(total > 0, total, 1.0))
        log = where(xp.isnan(total), total, log)
        to_peak, to_log = (peak, log) if given is None else given
        # what a weight relative to the running maximum is worth, as every later sweep has it
        share = where(to_peak == -inf, 0.0, xp.exp((peak - to_peak) - to_log))
        own = share if given is not None else where(total == 0, 0.0, 1 / total)
        weight, divide = (x if shrink is None else shrink * x for x in (share, own))
        return FinishedRows(peak, log, Sums(sums, log, weight), divide, to_peak, to_log)
