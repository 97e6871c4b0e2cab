"""What a sweep over the tiles of a head collects. Each collector sees every tile once.

Rows come in blocks: `begin(block)`, `fold(tile, weights)` for each of its tiles in order of keys,
`end()`. Answers are about the recorded rows, in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.recording.layer import areas
from regard.recording.replay import Block, Replay, Tile
from regard.recording.stores import Array
from regard.running import RunningRows, sums_for
from regard.shapes import AttentionShape
from regard.summary import (
    ColumnStatistic,
    ColumnSums,
    Mass,
    Offsets,
    Pooled,
    RowStatistic,
    Summary,
    Top,
    TopScored,
)


class Collector(ABC):
    """Something that is summed up over tiles."""

    needs_weights: bool = True
    needs_scaled: bool = False
    rows: Array | None = None  # (n,) ascending: the rows it is about; None for all recorded ones

    def begin(self, block: Block) -> None:  # noqa: B027
        """The next tiles are of these rows."""

    @abstractmethod
    def fold(self, tile: Tile, weights: Array) -> None:
        """One more tile; weights is (R, W), empty for who does not need them."""

    def end(self) -> None:  # noqa: B027
        """No more tiles of these rows."""


class Measuring(Collector):
    """Whoever collects what statistics are answered from."""

    @abstractmethod
    def answers(self) -> dict[Summary, Any]:
        """What was collected, by the statistic it is for."""


def sweep(replay: Replay, collectors: Sequence[Collector]) -> None:
    """Every tile of the rows that anybody is about, shown to every collector."""
    recorded = replay.held.rows
    wanted = [one.rows for one in collectors if one.rows is not None]
    chosen = np.arange(recorded.start, recorded.stop)
    if len(wanted) == len(collectors):
        chosen = np.unique(np.concatenate([*wanted, chosen[:0]]))
    scaled = any(one.needs_scaled for one in collectors)
    weighed = any(one.needs_weights for one in collectors)
    with np.errstate(divide="ignore", invalid="ignore"):  # scores may be infinite, rows empty
        for _, block in replay.blocks(chosen):
            state = replay.state(block.rows) if weighed else None
            for one in collectors:
                one.begin(block)
            for tile in block.tiles(scaled=scaled):
                weights = tile.scores[:, :0] if state is None else state.weights(tile.scores)
                for one in collectors:
                    one.fold(tile, weights)
            for one in collectors:
                one.end()


class RowNumbers(Measuring):
    """Statistics of rows, closed from running sums (`regard.running`) by the rows' own lse. Those
    whose formulas are torch's get tensors of the same memory."""

    needs_weights, needs_scaled = False, True

    def __init__(self, replay: Replay, statistics: Sequence[RowStatistic], position: int) -> None:
        self.replay, self.statistics, self.position = replay, statistics, position
        self.array: Callable[[Array], Any] = _same
        if not statistics[0].takes_numpy:
            import torch  # which the statistics themselves need

            self.array = torch.from_numpy
        self.sums = sums_for(statistics)
        count = len(replay.held.rows)
        self.found = {
            one: np.zeros(count, np.int64 if one.whole else replay.dtype) for one in statistics
        }

    def begin(self, block: Block) -> None:
        """New sums for each row."""
        dtypes = self.replay.dtype, np.float64
        like, wide = (self.array(np.zeros(0, dtype)) for dtype in dtypes)
        self.block = block
        self.running = RunningRows(self.sums, (block.rows.size,), like, wide)

    def fold(self, tile: Tile, weights: Array) -> None:
        """Scores alone."""
        keys = np.arange(tile.start, min(tile.stop, self.replay.held.place.keys))
        scores, scaled, i, j = map(self.array, (tile.scores, tile.scaled, tile.rows, keys))
        self.running.fold(scores, scaled, i, j, self.position)

    def end(self) -> None:
        """With the sink; the stored lse is held against this one."""
        rows, sinks = self.block.rows, self.block.sinks()
        done = self.running.finish(None if sinks is None else self.array(sinks))
        self.replay.check_lse(rows, np.asarray(done.peak + done.log))
        for one, numbers in self.found.items():
            numbers[rows - self.replay.held.rows.start] = np.asarray(one.close(done.sums))

    def answers(self) -> dict[Summary, Any]:
        """(rows,) each."""
        return dict(self.found.items())


class ColumnTerms(Measuring):
    """A statistic of keys that a caller declares: the terms of all rows, joined."""

    def __init__(self, replay: Replay, statistic: ColumnStatistic) -> None:
        import torch  # which the statistic itself needs

        self.statistic, self.array = statistic, torch.from_numpy
        self.column = torch.from_numpy(np.zeros(replay.held.place.keys, replay.dtype))

    def fold(self, tile: Tile, weights: Array) -> None:
        """One number a key, joined to those of the rows before."""
        here = self.column[tile.start : tile.stop]
        term = self.statistic.term(self.array(weights[:, : len(here)]))
        here.copy_(self.statistic.joined(here, term))

    def answers(self) -> dict[Summary, Any]:
        """(keys,)."""
        return {self.statistic: self.column.numpy()}


def _same(array: Array) -> Array:
    return array


class Columns(Measuring):
    """The mass each key received from some rows, or their largest weight, and how many of them see
    it. `by` (queries,) multiplies the weights of each row."""

    def __init__(
        self, replay: Replay, rows: Array | None, asked: Summary, by: Array | None = None
    ) -> None:
        self.rows, self.asked, self.by, self.dtype = rows, asked, by, replay.dtype
        self.sums = asked.column_sums() or ColumnSums()
        self.mass = np.zeros(replay.held.place.keys)
        self.seen = np.zeros(replay.held.place.keys, np.int64)

    def fold(self, tile: Tile, weights: Array) -> None:
        """Sums down the tile."""
        scores = tile.scores
        if self.by is not None:
            weights = weights * self.by[tile.rows, None]
        if self.rows is not None:
            chosen = np.isin(tile.rows, self.rows, assume_unique=True)
            scores, weights = scores[chosen], weights[chosen]
        stop = min(tile.start + weights.shape[1], self.mass.size)
        width = stop - tile.start
        here = self.mass[tile.start : stop]
        if self.sums.largest:
            np.maximum(here, weights[:, :width].max(0, initial=0.0), out=here)
        else:
            here += weights.sum(0)[:width]
        if self.sums.seen:
            self.seen[tile.start : stop] += np.count_nonzero(scores != -np.inf, axis=0)[:width]

    def answers(self) -> dict[Summary, Any]:
        """(keys,) each."""
        seen = self.seen if self.sums.seen else None
        return {self.asked: Mass(self.mass.astype(self.dtype), seen)}


class Map(Measuring):
    """Mean or largest weight in cells of the matrix; rows that were not recorded count as 0."""

    def __init__(self, replay: Replay, asked: Pooled, shape: AttentionShape) -> None:
        self.asked, self.how, self.dtype = asked, asked.how, replay.dtype
        self.cell = asked.size(shape)
        self.shape = shape.queries, shape.keys
        self.found = np.zeros(tuple(-(-n // self.cell) for n in self.shape))

    def fold(self, tile: Tile, weights: Array) -> None:
        """Into the cells it touches."""
        width = min(weights.shape[1], self.shape[1] - tile.start)
        reduce = np.add if self.how == "mean" else np.maximum
        first = int(tile.rows[0]), tile.start
        part = pool(reduce, weights[:, :width], self.cell, first)
        y, x = (at // self.cell for at in first)
        view = self.found[y : y + part.shape[0], x : x + part.shape[1]]
        reduce(view, part, out=view)

    def answers(self) -> dict[Summary, Any]:
        """(⌈L/cell⌉, ⌈S/cell⌉)."""
        is_mean = self.how == "mean"
        cells = self.found / areas(self.shape, self.cell) if is_mean else self.found
        return {self.asked: cells.astype(self.dtype)}


def pool(reduce: np.ufunc, table: Array, cell: int, first: tuple[int, int]) -> Array:
    """(R, W) numbers from row and key `first` on → one for each cell × cell square they touch."""
    for axis, start in enumerate(first):
        table = _pool_axis(reduce, table, axis, cell, start % cell)
    return table


def _pool_axis(reduce: np.ufunc, table: Array, axis: int, cell: int, missing: int) -> Array:
    """Without the `missing` first numbers of the first cell."""
    count = table.shape[axis]
    if cell == 1:
        return table
    if missing == 0 and count % cell == 0:  # many times faster than reduceat
        shape = (*table.shape[:axis], count // cell, cell, *table.shape[axis + 1 :])
        return np.asarray(reduce.reduce(table.reshape(shape), axis=axis + 1))
    starts = np.maximum(np.arange(-missing, count, cell), 0)
    return np.asarray(reduce.reduceat(table, starts, axis=axis))


class Diagonals(Measuring):
    """The mass on each diagonal: entry e is j − i = e − (L − 1)."""

    def __init__(self, replay: Replay, asked: Offsets) -> None:
        place = replay.held.place
        self.asked, self.shape, self.dtype = asked, (place.queries, place.keys), replay.dtype
        self.found = np.zeros(max(sum(self.shape) - 1, 0))

    def fold(self, tile: Tile, weights: Array) -> None:
        """Rows turned upside down and shifted by one each: diagonals become columns."""
        count, width = weights.shape[0], min(weights.shape[1], self.shape[1] - tile.start)
        skewed = np.zeros((count, width + count), weights.dtype)
        skewed[:, :width] = weights[::-1, :width]
        columns = skewed.reshape(-1)[: count * (width + count - 1)].reshape(count, -1)
        first = tile.start - int(tile.rows[-1]) + self.shape[0] - 1
        self.found[first : first + columns.shape[1]] += columns.sum(0)

    def answers(self) -> dict[Summary, Any]:
        """(L + S − 1,)."""
        return {self.asked: self.found.astype(self.dtype)}


class Products(Collector):
    """A @ x for x (S, M)."""

    def __init__(self, replay: Replay, x: Array) -> None:
        self.first, self.x = replay.held.rows.start, x.astype(replay.dtype, copy=False)
        self.found = np.zeros((len(replay.held.rows), x.shape[1]))
        self.dtype: np.dtype[Any] = replay.dtype

    def fold(self, tile: Tile, weights: Array) -> None:
        """A product a tile."""
        part = self.x[tile.start : tile.start + weights.shape[1]]
        at = slice(int(tile.rows[0]) - self.first, int(tile.rows[-1]) + 1 - self.first)
        self.found[at] += weights[:, : len(part)] @ part

    def answer(self) -> Array:
        """(rows, M)."""
        return self.found.astype(self.dtype)


class TransposedProducts(Collector):
    """Aᵀ @ y for y (rows, M)."""

    def __init__(self, replay: Replay, y: Array) -> None:
        self.first, self.y = replay.held.rows.start, y.astype(replay.dtype, copy=False)
        self.found = np.zeros((replay.held.place.keys, y.shape[1]))
        self.dtype: np.dtype[Any] = replay.dtype

    def fold(self, tile: Tile, weights: Array) -> None:
        """A product a tile."""
        part = self.y[tile.rows - self.first]
        view = self.found[tile.start : tile.start + weights.shape[1]]
        view += weights[:, : len(view)].T @ part

    def answer(self) -> Array:
        """(keys, M)."""
        return self.found.astype(self.dtype)


_CROWD = 4  # candidates, as a multiple of what can stay, before most are turned away first


class Heaviest(Measuring):
    """The k best keys of each row by final score."""

    needs_weights = False

    def __init__(self, replay: Replay, asked: Top) -> None:
        self.replay, self.asked, self.k = replay, asked, asked.k
        rows = replay.held.rows
        self.first = rows.start
        self.weights = np.zeros((len(rows), self.k), replay.dtype)
        self.keys = np.full((len(rows), self.k), -1, np.int64)

    def begin(self, block: Block) -> None:
        """Nobody yet."""
        self.rows_now = block.rows
        self.best = np.full((block.rows.size, self.k), -np.inf, self.replay.dtype)
        self.best_keys = np.full((block.rows.size, self.k), -1, np.int64)

    def fold(self, tile: Tile, weights: Array) -> None:
        """Who beats the last of the best so far joins; the tile's keys are higher than theirs."""
        scores = tile.scores
        better = scores > self.best[:, -1:]
        count = int(np.count_nonzero(better))
        if count > _CROWD * self.best.size and self.k < scores.shape[1]:
            least = np.partition(scores, scores.shape[1] - self.k, axis=1)[:, -self.k, None]
            better &= scores >= least
            count = int(np.count_nonzero(better))
        if count:
            self._join(tile, better)

    def _join(self, tile: Tile, better: Array) -> None:
        """Old and new together, sorted by row, then score, then key; k of each row stay."""
        size = self.best.shape[0]
        row, col = np.nonzero(better)
        rows = np.concatenate([np.repeat(np.arange(size), self.k), row])
        scores = np.concatenate([self.best.reshape(-1), tile.scores[row, col]])
        keys = np.concatenate([self.best_keys.reshape(-1), col + tile.start])
        order = np.lexsort((keys, -scores, rows))
        first = np.searchsorted(rows[order], np.arange(size))
        kept = order[first[:, None] + np.arange(self.k)]
        self.best, self.best_keys = scores[kept], keys[kept]

    def end(self) -> None:
        """Weights at the end, by the rows' lse."""
        at = self.rows_now - self.first
        self.weights[at] = self.replay.state(self.rows_now).weights(self.best)
        self.keys[at] = self.best_keys

    def answers(self) -> dict[Summary, Any]:
        """(rows, k) each; the scores themselves are gone."""
        return {self.asked: TopScored(self.weights, self.keys, self.weights)}
