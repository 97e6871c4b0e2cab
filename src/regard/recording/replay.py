"""One head computed again from q, k and lse, tile by tile.

Every product is of one canonical shape, 8 rows × 128 keys at absolute positions, zero-padded at
the edges: a BLAS gives a number different bits in a product of another shape, and a weight must
have the same bits in whatever question it is asked. Larger tiles are stacks of that product. Being
small, it is computed by one thread and, by OpenBLAS, without being packed first.

    raw = q·k → × scale → soft cap → + bias → mask: −∞ where hidden → weight = exp(score − lse)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from regard.errors import FileError
from regard.mask import Verdict
from regard.recording.layer import Held
from regard.recording.rules import Rules
from regard.recording.stores import Array
from regard.running import RunningRows, sums_for

_UNIT: Final = 8  # rows of the canonical product
_LANE: Final = 128  # keys of it
_KEYS: Final = 512  # keys come by so many
_STACK: Final = 256  # canonical products a tile is made of, at most
_WIDEST: Final = 8192  # keys a tile has, at most
BLOCK_ROWS: Final = 256  # rows a sweep takes at once, aligned
_FINE_LSE: Final = 64.0  # a float32 lse beyond loses more of a weight than the scores do
_LSE_SLACK: Final = (0.05, 1e-3)  # absolute, and of the number: a stored lse that is no accident


@dataclass(frozen=True)
class Part:
    """A segment as one head sees it."""

    rows: range  # recorded ones
    first_row: int  # where the segment's own counting of queries starts
    keys: range
    rules: Rules

    @classmethod
    def of(cls, held: Held, head: int, segment: int) -> Part:
        """As far as its rows were recorded."""
        one, rows = held.place.segments[segment], held.rows
        own = range(max(one.rows[0], rows.start), min(one.rows[1], rows.stop))
        return cls(own, one.rows[0], range(*one.keys), held.rules(head, segment))


@dataclass(frozen=True)
class Tile:
    """Scores of some rows for keys `start` … `start` + width − 1."""

    rows: Array  # (R,) absolute row numbers
    start: int
    scores: Array  # (R, W): the final ones, −∞ where hidden or beyond the keys
    scaled: Array  # (R, W): scale·q·k before cap and bias, where asked for; else final as well

    @property
    def stop(self) -> int:
        """One behind its last key."""
        return self.start + self.scores.shape[1]


class RowState(NamedTuple):
    """lse = base + log, kept apart because one number would lose the small part."""

    base: Array  # (R,); −∞ in rows that see nothing
    log: Array  # (R,)

    def weights(self, scores: Array) -> Array:
        """exp(score − lse) for scores (R, W); 0 in rows that see nothing."""
        base = np.where(self.base == -np.inf, self.base.dtype.type(0), self.base)
        found: Array = scores - base[:, None]
        if self.log.any():
            found -= self.log[:, None]
        return np.exp(found, out=found)


class Replay:
    """The matrix of one head, which is never built."""

    def __init__(self, held: Held, head: int) -> None:
        self.held, self.head = held, head
        self.slot, self.key_head = held.slot(head), held.key_head(head)
        self.queries, self.keys = held.runs["q"], held.runs["k"]
        wide = {piece.dtype for run in (self.queries, self.keys) for piece in run.pieces}
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if "F64" in wide else np.float32)
        self._parts: dict[int, Part] = {}

    @cached_property
    def _starts(self) -> Array:
        return np.array([one.rows[0] for one in self.held.place.segments], np.int64)

    def part(self, segment: int) -> Part:
        """A segment with its rules."""
        if segment not in self._parts:
            self._parts[segment] = Part.of(self.held, self.head, segment)
        return self._parts[segment]

    # ── blocks and tiles ─────────────────────────────────────────────────────────────────────

    def blocks(self, rows: Array) -> Iterator[tuple[Array, Block]]:
        """Blocks that together hold `rows` (any order), each with where its rows stand in them."""
        segment = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.lexsort((rows // BLOCK_ROWS, segment))  # stable: rows stay in their order
        changes = np.diff(segment[order]) | np.diff(rows[order] // BLOCK_ROWS)
        for members in np.split(order, np.flatnonzero(changes) + 1):
            if members.size:
                yield members, Block(self, self.part(int(segment[members[0]])), rows[members])

    def state(self, rows: Array) -> RowState:
        """Of any rows: the stored lse where that is fine enough, else computed once."""
        base = self._base[rows - self.held.rows.start]
        missing = rows[np.isnan(base)]
        if missing.size:
            self._compute(np.unique(missing))
            base = self._base[rows - self.held.rows.start]
        return RowState(base, self._log[rows - self.held.rows.start])

    def _compute(self, rows: Array) -> None:
        for _, block in self.blocks(rows):
            peak, log = block.state()
            self.check_lse(block.rows, peak + log)
            at = block.rows - self.held.rows.start
            self._log[at] = log  # first: another thread that finds a base takes its log too
            self._base[at] = peak

    @cached_property
    def _base(self) -> Array:
        """(rows,): the stored lse; NaN where it has to be computed, because one float32 number is
        too coarse beside large scores, and beside doubles."""
        found = np.full(len(self.held.rows), np.nan, self.dtype)
        stored = self._stored_lse
        if stored is not None and stored.dtype.itemsize >= self.dtype.itemsize:
            with np.errstate(invalid="ignore"):
                fine = (np.abs(stored) <= _FINE_LSE) | (stored == -np.inf)
            found[fine] = stored[fine]
        return found

    @cached_property
    def _log(self) -> Array:
        return np.zeros(len(self.held.rows), self.dtype)

    @cached_property
    def _stored_lse(self) -> Array | None:
        run = self.held.runs.get("lse")
        return None if run is None else run.numbers(self.slot, self.held.rows.stop)

    def check_lse(self, rows: Array, own: Array) -> None:
        """FileError where the stored lse is not that of q, k and the mask."""
        if self._stored_lse is None:
            return
        stored = self._stored_lse[rows - self.held.rows.start].astype(np.float64)
        with np.errstate(invalid="ignore"):
            allowed = _LSE_SLACK[0] + _LSE_SLACK[1] * np.abs(own)
            wrong = ~((np.abs(stored - own) <= allowed) | (stored == own) | np.isnan(own))
        if wrong.any():
            n = int(np.flatnonzero(wrong)[0])
            raise FileError(
                f"{self.held.place.label}H{self.head}: the stored lse of row {rows[n]} is "
                f"{stored[n]:.6g}, but its q, k and mask give {own[n]:.6g}"
            )

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def cells(self, rows: Array, cols: Array, weights: bool) -> Array:
        """(R, C): weights or final scores of any rows and keys, in any order."""
        found = np.full((rows.size, cols.size), 0 if weights else -np.inf, self.dtype)
        if not cols.size:
            return found
        order = np.argsort(cols, kind="stable")
        ascending = cols[order]
        for at, block in self.blocks(rows):
            state = self.state(block.rows) if weights else None
            for tile in block.tiles(int(ascending[0]), int(ascending[-1]) + 1):
                low, high = np.searchsorted(ascending, (tile.start, tile.stop))
                if low < high:
                    scores = tile.scores[:, _span(ascending[low:high] - tile.start)]
                    part = scores if state is None else state.weights(scores)
                    _put(found, at, order[low:high], part)
        return found


def _span(places: Array) -> Array | slice:
    """The places as a slice where they follow each other."""
    first, last = int(places[0]), int(places[-1])
    is_run = last - first == places.size - 1 and bool(np.all(np.diff(places) == 1))
    return slice(first, last + 1) if is_run else places


def _put(found: Array, rows: Array, cols: Array, part: Array) -> None:
    """found[rows × cols] = part."""
    down, across = _span(rows), _span(cols)
    if isinstance(down, slice) or isinstance(across, slice):
        found[down, across] = part
    else:
        found[np.ix_(down, across)] = part


class Block:
    """Some rows of one segment, at most BLOCK_ROWS, with their queries at hand."""

    def __init__(self, replay: Replay, part: Part, rows: Array) -> None:
        self.replay, self.part, self.rows = replay, part, rows
        self._local = rows - part.first_row
        units = rows // _UNIT
        self._unit, at = np.unique(units, return_inverse=True)
        self._place = at * _UNIT + rows % _UNIT  # of each row among those of the units
        self._is_whole = np.array_equal(self._place, np.arange(self._unit.size * _UNIT))
        self._low, self._high = int(self._local.min()), int(self._local.max()) + 1

    @cached_property
    def _queries(self) -> Array:
        """(U, 1, 8, D): the units that hold the rows, 0 where no row was recorded."""
        run, place = self.replay.queries, self.replay.held.place
        found = np.zeros((self._unit.size, 1, _UNIT, place.dim), self.replay.dtype)
        first, last = int(self._unit[0]) * _UNIT, (int(self._unit[-1]) + 1) * _UNIT
        is_run = last - first == self._unit.size * _UNIT
        if is_run and run.origin <= first and last <= run.stop:
            found.reshape(-1, place.dim)[:] = run.take(self.replay.slot, first, last)
            return found
        for n, unit in enumerate(self._unit.tolist()):
            start = max(unit * _UNIT, run.origin)
            stop = min((unit + 1) * _UNIT, run.stop)
            lanes = slice(start - unit * _UNIT, stop - unit * _UNIT)
            found[n, 0, lanes] = run.take(self.replay.slot, start, stop)
        return found

    def tiles(
        self, start: int = 0, stop: int | None = None, *, scaled: bool = False
    ) -> Iterator[Tile]:
        """The tiles with anything to see, from key `start` up to `stop`, in order of keys."""
        keys = self.part.keys
        step = _LANE if stop is not None and stop - start <= _LANE else _KEYS  # of few keys, a lane
        low = max(start, keys.start) // step * step
        high = keys.stop if stop is None else min(stop, keys.stop)
        width = max(_STACK * _LANE // _KEYS // self._unit.size, 1) * _KEYS
        width = min(width, _WIDEST)
        for at in range(low, high, width):
            wide = -(-min(width, high - at) // step) * step
            verdict = self._verdict(at, at + wide)
            if verdict is not Verdict.NONE:
                yield self._tile(at, wide, verdict, scaled)

    def _verdict(self, start: int, stop: int) -> Verdict:
        keys, rules = self.part.keys, self.part.rules
        cols = range(max(start, keys.start) - keys.start, min(stop, keys.stop) - keys.start)
        if rules.mask is None:
            return Verdict.ALL if cols else Verdict.NONE
        return rules.mask.verdict(range(self._low, self._high), cols, rules.extent)

    def _tile(self, start: int, wide: int, verdict: Verdict, keep_scaled: bool) -> Tile:
        rules, keys = self.part.rules, self.part.keys
        scores = self._product(start, wide)
        np.multiply(scores, scores.dtype.type(rules.score.scale), out=scores)
        is_bent = rules.score.softcap is not None or rules.score.bias is not None
        scaled = scores.copy() if keep_scaled and is_bent else scores
        if rules.score.softcap is not None:
            scores = rules.score.cap(scores)
        low = max(keys.start - start, 0)
        high = min(keys.stop - start, scores.shape[1])
        self._bias_and_hide(scores[:, low:high], start + low, verdict)
        scores[:, :low] = scores[:, high:] = -np.inf
        return Tile(self.rows, start, scores, scaled if is_bent else scores)

    def _bias_and_hide(self, scores: Array, start: int, verdict: Verdict) -> None:
        """In place, for the keys of the segment from `start` on."""
        rules = self.part.rules
        if rules.score.bias is None and verdict is Verdict.ALL:
            return
        first = start - self.part.keys.start
        cols = np.arange(first, first + scores.shape[1])
        if rules.score.bias is not None:
            bias = rules.score.bias.tile(self._local, cols, rules.extent)
            scores += np.asarray(bias).reshape(bias.shape[-2:]).astype(scores.dtype)
        if verdict is not Verdict.ALL and rules.mask is not None:
            allowed = rules.mask.allows(self._local, cols, rules.extent)
            np.copyto(scores, -np.inf, where=~allowed.reshape(allowed.shape[-2:]))

    def _product(self, start: int, wide: int) -> Array:
        """(R, wide): q·k of whole lanes, by canonical products."""
        replay = self.replay
        stop = min(start + wide, replay.keys.stop)
        keys = replay.keys.take(replay.key_head, start, stop)
        if keys.dtype != replay.dtype or len(keys) < wide:
            padded = np.zeros((wide, keys.shape[1]), replay.dtype)
            padded[: len(keys)] = keys
            keys = padded
        stacked = keys.reshape(-1, _LANE, keys.shape[1]).swapaxes(1, 2)  # (T, D, 128)
        found = np.empty((self._unit.size * _UNIT, wide), replay.dtype)
        lanes = found.reshape(self._unit.size, _UNIT, -1, _LANE)
        np.matmul(self._queries, stacked, out=lanes.swapaxes(1, 2))  # (U, T, 8, 128), in place
        return found if self._is_whole else found[self._place]

    def sinks(self) -> Array | None:
        """(R,): the sink's score in each row, where there is one."""
        sink = self.part.rules.sink
        return None if sink is None else np.full(self.rows.size, sink, self.replay.dtype)

    def state(self) -> RowState:
        """log Σ exp(score), the sink among them; −∞ where a row sees no key."""
        like, none = np.zeros(0, self.replay.dtype), np.zeros(0, np.int64)
        running = RunningRows(sums_for(()), (self.rows.size,), like, np.zeros(0))
        with np.errstate(divide="ignore", invalid="ignore"):  # scores may be infinite, rows empty
            for tile in self.tiles():
                for at in range(0, tile.scores.shape[1], _KEYS):  # a fixed order of sums: its bits
                    part = tile.scores[:, at : at + _KEYS]
                    running.fold(part, part, none, none, 0)
            done = running.finish(self.sinks())
        return RowState(done.peak, done.log.astype(like.dtype))
