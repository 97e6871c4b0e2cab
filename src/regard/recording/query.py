"""Answers about one head: what is stored is given as it is, the rest is swept for, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from regard.arrays import host
from regard.declare import encode, is_portable
from regard.errors import InputError, UnavailableError
from regard.recording.collect import (
    Columns,
    ColumnTerms,
    Diagonals,
    Heaviest,
    Map,
    Measuring,
    RowNumbers,
    sweep,
)
from regard.recording.indexing import rows_meant
from regard.recording.layer import Held, StoredOf, areas
from regard.recording.replay import Replay
from regard.recording.stores import Array
from regard.recording.visibility import Sight
from regard.shapes import AttentionShape
from regard.summary import (
    ColumnStatistic,
    Mass,
    Measured,
    Offsets,
    Pooled,
    Received,
    RowStatistic,
    Summary,
    Top,
    TopScored,
    Visible,
    Weighted,
)
from regard.summary.base import fewest

_MOST_TOP: Final = 512  # heaviest keys of a row that may be asked for even where there are fewer
_LARGEST_CELL: Final = 2**31


class Answers:
    """Looks answers up, or sweeps for them, and remembers what a sweep has brought."""

    def __init__(self, held: Held, head: int) -> None:
        self.held, self.head = held, head
        self.stored = StoredOf(held, head)
        place = held.place
        self.shape = AttentionShape((), 1, 1, place.queries, place.keys, place.dim, 0)
        self._measured: dict[Summary, Any] = {}

    def __call__(self, *summaries: Summary) -> list[Any]:
        """The answers, by as few sweeps as possible: none or one."""
        missing: list[Summary] = []
        for one in summaries:
            self._check(one)
            source = one.source()
            if one.answer(self._measured, self.shape) is None:
                known = self._known(source)
                if known is None:
                    missing.append(source)
                else:
                    self._measured[source] = known
        self._sweep(fewest(missing))
        return [one.answer(self._measured, self.shape) for one in summaries]

    def _check(self, summary: Summary) -> None:
        keys = self.held.place.keys
        if isinstance(summary, Top) and summary.k > max(keys, _MOST_TOP):
            raise InputError(f"top(k={summary.k}): a row has {keys} keys; give at most {keys}")
        if isinstance(summary, Pooled) and (summary.cell or 0) > _LARGEST_CELL:
            raise InputError(
                f"pooled(cell={summary.cell}); give a whole number from 1 to {_LARGEST_CELL}"
            )
        summary.check(self.shape)

    @cached_property
    def replay(self) -> Replay:
        """The head computed again; UnavailableError where it cannot be."""
        if self.held.why_not(self.head):
            raise self.unavailable("single weights")
        return Replay(self.held, self.head)

    @cached_property
    def sight(self) -> Sight:
        """What may be seen, by the masks alone."""
        return Sight(self.held, self.head)

    def unavailable(self, what: str) -> UnavailableError:
        """Why `what` cannot be had, and what can."""
        place, why_not = self.held.place, self.held.why_not(self.head)
        have = [f"{name} ({measure})" for name, measure in self.stored.measures.items()]
        would_work = f"with --layers {place.layer} or a larger --budget"
        if "too large" in why_not:  # of a mask's or a bias's table, which no budget makes smaller
            would_work = "with a shorter prompt"
        return UnavailableError(
            f"{place.label}H{self.head}: {why_not or 'its mask is not known'}, so {what} cannot be "
            f"computed; stored: {', '.join(have) or 'nothing'}. Record again {would_work}"
        )

    # ── stored ───────────────────────────────────────────────────────────────────────────────

    def _known(self, source: Summary) -> Measured | None:
        """What a sweep would bring, where the recording has exactly it; else None."""
        if isinstance(source, RowStatistic):
            name = self.held.kept_as.get(encode(source)) if is_portable(source) else None
            numbers = None if name is None else self._row_numbers(name)
            if numbers is None and isinstance(source, Visible) and self.sight.is_complete:
                numbers = self.sight.visible()
            return numbers
        way = _STORED.get(type(source))
        return None if way is None else way(self, source)

    def _row_numbers(self, what: str) -> Any:
        run = self.held.runs.get(what)
        if run is None or run.is_binned:
            return None
        return run.numbers(self.held.slot(self.head), self.held.rows.stop)

    def _top(self, asked: Top) -> TopScored | None:
        runs = [self.held.runs.get(what) for what in ("top_weights", "top_keys")]
        slot, stop = self.held.slot(self.head), self.held.rows.stop
        kept = [run for run in runs if run is not None and not run.is_binned]
        found = [run.numbers(slot, stop) for run in kept]
        if len(found) < 2 or min(one.shape[-1] for one in found) < asked.k:
            return None
        weights, keys = found[0][:, : asked.k], found[1][:, : asked.k].astype(np.int64)
        return TopScored(weights, keys, weights)

    def _received(self, asked: Received) -> Mass | None:
        rows = rows_meant(asked.queries, self.held.rows, self.shape.queries)
        if rows is not None or self.held.place.key_bin > 1 or "received" not in self.stored:
            return None
        if asked.how == "max" or (asked.how == "mean" and not self.sight.is_complete):
            return None
        seen = self.sight.seen() if asked.how == "mean" else None
        return Mass(self.stored["received"].values, seen)

    def _pooled(self, asked: Pooled) -> Any:
        """The stored map, or several of its cells as one."""
        own, cell = self.held.place.pool_cell, asked.size(self.shape)
        if asked.how != "mean" or not own or cell % own or "pooled" not in self.stored:
            return None
        if cell == own:
            return self.stored["pooled"].values
        sums = self.held.pooled_sums(self.held.slot(self.head))
        assert sums is not None  # it is among what is stored
        mass: Array = sums.astype(np.float64)
        for axis, n in enumerate(shape := (self.held.place.queries, self.held.place.keys)):
            starts = np.arange(0, -(-n // own), cell // own)
            mass = np.add.reduceat(mass, starts, axis=axis) if n else mass
        return (mass / areas(shape, cell)).astype(np.float32)

    def _offsets(self, asked: Offsets) -> Any:
        """The stored profile, where it keeps every distance apart."""
        place = self.held.place
        if place.kind != "self" or "offsets" not in self.stored:
            return None
        profile = self.stored["offsets"]
        edges = profile.edges
        if edges is None or np.any(np.diff(edges) != 1):
            return None
        found = np.zeros(max(place.queries + place.keys - 1, 0), profile.values.dtype)
        at = place.queries - 1 - edges[:-1]  # j − i is the distance turned round
        inside = (at >= 0) & (at < found.size)
        found[at[inside]] = profile.values[inside]
        return found

    # ── swept ────────────────────────────────────────────────────────────────────────────────

    def _sweep(self, sources: Sequence[Summary]) -> None:
        if not sources:
            return
        if self.held.why_not(self.head):
            one = sources[0]
            by_row = f"{one.name} row by row"
            raise self.unavailable(by_row if isinstance(one, RowStatistic) else one.words)
        collectors = self._collectors(sources)
        sweep(self.replay, collectors)
        for collector in collectors:
            self._measured |= collector.answers()

    def _collectors(self, sources: Sequence[Summary]) -> list[Measuring]:
        replay, found = self.replay, list[Measuring]()
        rows = [one for one in sources if isinstance(one, RowStatistic)]
        for neutral in (True, False):
            some = [one for one in rows if one.takes_numpy is neutral]
            found += [RowNumbers(replay, some, self.position)] if some else []
        for one in sources:
            if isinstance(one, ColumnStatistic):
                found.append(ColumnTerms(replay, one))
            elif one not in rows:
                if type(one) not in _SWEPT:
                    raise InputError(f"{one!r} is no statistic that a recording can be asked for")
                found.append(_SWEPT[type(one)](self, one))
        return found

    def _columns(self, asked: Summary) -> Measuring:
        sums = asked.column_sums()
        assert sums is not None
        rows = rows_meant(sums.queries, self.held.rows, self.shape.queries)
        by = None
        if sums.by is not None:
            by = np.asarray(host(sums.by)).reshape(-1)
            by = np.broadcast_to(by, (self.shape.queries,))
        return Columns(self.replay, rows, asked, by)

    @property
    def position(self) -> int:
        """Query i stands at key i + position: at i in self-attention, else the last at the last."""
        place = self.held.place
        return 0 if place.kind == "self" else place.keys - place.queries

    def lse(self) -> Array:
        """(rows,): stored, or computed."""
        stored: Array | None = self._row_numbers("lse")
        if stored is not None:
            return stored
        rows = self.held.rows
        state = self.replay.state(np.arange(rows.start, rows.stop))
        return state.base + state.log

    def sinks(self) -> Array:
        """(rows,): the sink each row has; −∞ where it has none."""
        rows = self.held.rows
        found = np.full(len(rows), -math.inf)
        for part in self.sight.parts:
            sink = part.rules.sink
            found[part.rows.start - rows.start : part.rows.stop - rows.start] = (
                -math.inf if sink is None else sink
            )
        return found


def is_grouped(summary: Summary) -> bool:
    """Whether other heads are asked about as well: those that share a key head."""
    return isinstance(summary, (Received, Weighted)) and summary.groups is not None


# The statistics that are no sums of rows or columns: how they are stored, and what sweeps for them.
_STORED: Final[dict[type[Summary], Callable[[Answers, Any], Any]]] = {
    Top: Answers._top,
    Received: Answers._received,
    Pooled: Answers._pooled,
    Offsets: Answers._offsets,
}
_SWEPT: Final[dict[type[Summary], Callable[[Answers, Any], Measuring]]] = {
    Top: lambda answers, one: Heaviest(answers.replay, one),
    Received: Answers._columns,
    Weighted: Answers._columns,
    Pooled: lambda answers, one: Map(answers.replay, one, answers.shape),
    Offsets: lambda answers, one: Diagonals(answers.replay, one),
}
