"""Collectors of columns, cells and diagonals, and of products with the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.recording.collect import Collector, Measuring
from regard.recording.held import areas
from regard.recording.replay import Replay, Tile
from regard.recording.store import Array
from regard.shapes import AttentionShape
from regard.summary import Mass, Offsets, Pooled, Received, Summary


class Columns(Measuring):
    """The mass each key received from some rows, and how many of them see it."""

    def __init__(self, replay: Replay, rows: Array | None, asked: Received) -> None:
        self.rows, self.asked, self.dtype = rows, asked, replay.dtype
        self.mass = np.zeros(replay.held.place.keys)
        self.seen = np.zeros(replay.held.place.keys, np.int64)

    def fold(self, tile: Tile, weights: Array) -> None:
        """Sums down the tile."""
        scores = tile.scores
        if self.rows is not None:
            chosen = np.isin(tile.rows, self.rows, assume_unique=True)
            scores, weights = scores[chosen], weights[chosen]
        stop = min(tile.start + weights.shape[1], self.mass.size)
        width = stop - tile.start
        self.mass[tile.start : stop] += weights.sum(0)[:width]
        if self.asked.per == "visible":
            self.seen[tile.start : stop] += np.count_nonzero(scores != -np.inf, axis=0)[:width]

    def answers(self) -> dict[Summary, Any]:
        """(keys,) each."""
        seen = self.seen if self.asked.per == "visible" else None
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
