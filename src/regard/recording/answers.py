"""Answers about one head: what is stored is given as it is, the rest is swept for, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import UnavailableError
from regard.recording.collect import (
    Collector,
    Counts,
    Entropies,
    Extremes,
    RowSums,
    Squares,
    sweep,
)
from regard.recording.heaviest import Heaviest, TopKeys
from regard.recording.held import Held
from regard.recording.question import Question
from regard.recording.regions import Columns, Diagonals, Map, areas
from regard.recording.replay import Replay
from regard.recording.sight import Sight
from regard.recording.store import Array
from regard.recording.stored import StoredOf

_WORDS = {
    "distance": "distances",
    "max_logit": "final scores",
    "top": "the heaviest keys",
    "received": "the mass that keys received",
    "pooled": "a map of this kind",
    "offsets": "sums of diagonals",
    "visible": "how many keys a row sees",
}


class Answers:
    """Looks answers up, or sweeps for them, and remembers what a sweep has brought."""

    def __init__(self, held: Held, head: int) -> None:
        self.held, self.head = held, head
        self.stored = StoredOf(held, head)
        self._found: dict[Question, Any] = {}

    def __call__(self, *questions: Question) -> list[Any]:
        """The answers, by as few sweeps as possible: none or one."""
        asked = dict.fromkeys(questions)
        known = {q: self._known(q) for q in asked if q not in self._found}
        self._found |= {q: value for q, value in known.items() if value is not None}
        self._sweep([q for q, value in known.items() if value is None])
        return [self._found[q] for q in questions]

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
        return UnavailableError(
            f"{place.label}H{self.head}: {why_not or 'its mask is not known'}, so {what} cannot be "
            f"computed; stored: {', '.join(have) or 'nothing'}. Record again with --layers "
            f"{place.layer} or a larger --budget"
        )

    def _sweep(self, questions: Sequence[Question]) -> None:
        if not questions:
            return
        if self.held.why_not(self.head):
            kind = questions[0].kind
            raise self.unavailable(_WORDS.get(kind, f"{kind} row by row"))
        collectors = {q: self._collector(q) for q in questions}
        sweep(self.replay, list(collectors.values()))
        self._found |= {q: one.answer() for q, one in collectors.items()}

    # ── stored ───────────────────────────────────────────────────────────────────────────────

    def _known(self, question: Question) -> Any:
        """The answer, where the recording has exactly it; else None."""
        kind = question.kind
        if kind in ("lse", "entropy", "max_score", "concentration"):
            return self._row_numbers(kind)
        if kind == "top":
            return self._top(question.k)
        if kind == "pooled" and question.how == "mean":
            return self._pooled(question.cell)
        if kind == "received" and question.rows is None:
            return self._received(question.per)
        if kind == "offsets":
            return self._offsets()
        if kind == "visible" and self.sight.is_complete:
            return self.sight.visible()
        return None

    def _row_numbers(self, what: str) -> Array | None:
        run = self.held.runs.get(what)
        if run is None or run.is_binned:
            return None
        return run.numbers(self.held.slot(self.head), self.held.rows.stop)

    def _top(self, k: int) -> TopKeys | None:
        runs = [self.held.runs.get(what) for what in ("top_weights", "top_keys")]
        slot, stop = self.held.slot(self.head), self.held.rows.stop
        found = [r.numbers(slot, stop) for r in runs if r is not None and not r.is_binned]
        if len(found) < 2 or min(one.shape[-1] for one in found) < k:
            return None
        return TopKeys(found[0][:, :k], found[1][:, :k].astype(np.int64))

    def _received(self, per: str) -> Array | None:
        if self.held.place.key_bin > 1 or "received" not in self.stored:
            return None
        mass = self.stored["received"].values
        if per == "sum":
            return mass
        if not self.sight.is_complete:
            return None
        return (mass / np.maximum(self.sight.seen(), 1)).astype(mass.dtype)

    def _pooled(self, cell: int) -> Array | None:
        """The stored map, or several of its cells as one."""
        own = self.held.place.pool_cell
        if not own or cell % own or "pooled" not in self.stored:
            return None
        fine, shape = self.stored["pooled"].values, (self.held.place.queries, self.held.place.keys)
        if cell == own:
            return fine
        mass: Array = fine * areas(shape, own)
        for axis, n in enumerate(shape):
            starts = np.arange(0, -(-n // own), cell // own)
            mass = np.add.reduceat(mass, starts, axis=axis) if n else mass
        return (mass / areas(shape, cell)).astype(fine.dtype)

    def _offsets(self) -> Array | None:
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

    def _collector(self, question: Question) -> Collector:
        replay, kind = self.replay, question.kind
        if kind == "top":
            return Heaviest(replay, question.k)
        if kind == "received":
            rows = None if question.rows is None else np.array(question.rows, np.int64)
            return Columns(replay, rows, question.per)
        if kind == "pooled":
            return Map(replay, question.cell, question.how)
        if kind == "distance":
            return RowSums(replay, self._away)
        plain: dict[str, Callable[[Replay], Collector]] = {
            "entropy": Entropies, "visible": Counts, "concentration": Squares, "offsets": Diagonals,
        }  # fmt: skip
        if kind in plain:
            return plain[kind](replay)
        return Extremes(replay, raw=kind == "max_score")

    def _away(self, rows: Array, keys: Array) -> Array:
        return np.abs((rows + self.position)[:, None] - keys)

    @property
    def position(self) -> int:
        """Query i stands at key i + position: at i in self-attention, else the last at the last."""
        place = self.held.place
        return 0 if place.kind == "self" else place.keys - place.queries

    def lse(self) -> Array:
        """(rows,): stored, or computed."""
        stored = self._row_numbers("lse")
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
