"""What a sweep over the tiles of a head collects. Each collector sees every tile once.

Rows come in blocks: `begin(block)`, `fold(tile, weights)` for each of its tiles in order of keys,
`end()`. Answers are about the recorded rows, in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.recording.replay import Block, Replay, Tile
from regard.recording.store import Array
from regard.running import RunningRows, sums_for
from regard.summary import ColumnStatistic, RowStatistic, Summary


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
