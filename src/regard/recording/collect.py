"""What a sweep over the tiles of a head collects. Each collector sees every tile once.

Rows come in blocks: `begin(block)`, `fold(tile, weights)` for each of its tiles in order of keys,
`end()`. Answers are about the recorded rows, in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.recording.online import OnlineSum
from regard.recording.replay import Block, Replay, Tile
from regard.recording.store import Array


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

    @abstractmethod
    def answer(self) -> Any:
        """What was collected."""


def sweep(replay: Replay, collectors: Sequence[Collector]) -> None:
    """Every tile of the rows that anybody is about, shown to every collector."""
    recorded = replay.held.rows
    wanted = [one.rows for one in collectors if one.rows is not None]
    chosen = np.arange(recorded.start, recorded.stop)
    if len(wanted) == len(collectors):
        chosen = np.unique(np.concatenate([*wanted, chosen[:0]]))
    scaled = any(one.needs_scaled for one in collectors)
    weighed = any(one.needs_weights for one in collectors)
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


class ByRow(Collector):
    """One number a row."""

    def __init__(self, replay: Replay, fill: float = 0.0, dtype: Any = None) -> None:
        rows = replay.held.rows
        self.first, self.dtype = rows.start, replay.dtype
        self.found = np.full(len(rows), fill, dtype or replay.dtype)
        self.at = np.zeros(0, np.int64)

    def begin(self, block: Block) -> None:
        """Where the rows stand in the answer."""
        self.at = block.rows - self.first

    def answer(self) -> Array:
        """(rows,)."""
        return self.found


class Entropies(ByRow):
    """−Σ p log p and lse from a sweep of their own, never by a foreign lse."""

    needs_weights = False

    def __init__(self, replay: Replay) -> None:
        super().__init__(replay)
        self.replay = replay

    def begin(self, block: Block) -> None:
        """A new sum for each row."""
        super().begin(block)
        self.block, self.online = block, OnlineSum(block.rows.size, self.dtype)

    def fold(self, tile: Tile, weights: Array) -> None:
        """Scores alone."""
        self.online.fold(tile.scores)

    def end(self) -> None:
        """With the sink; the stored lse is held against this one."""
        sink = self.block.part.rules.sink
        self.replay.check_lse(self.block.rows, np.add(*self.online.lse(sink)))
        self.found[self.at] = self.online.entropy(sink)


class Extremes(ByRow):
    """The largest scaled (`raw`) or final score of what a row sees."""

    needs_weights = False

    def __init__(self, replay: Replay, raw: bool) -> None:
        super().__init__(replay, -np.inf)
        self.needs_scaled = raw

    def fold(self, tile: Tile, weights: Array) -> None:
        """Hidden cells count as −∞."""
        scores = tile.scores
        if tile.scaled is not None and self.needs_scaled:
            scores = np.where(tile.scores == -np.inf, tile.scores, tile.scaled)
        self.found[self.at] = np.maximum(self.found[self.at], scores.max(-1))


class Counts(ByRow):
    """How many keys a row sees."""

    needs_weights = False

    def __init__(self, replay: Replay) -> None:
        super().__init__(replay, 0, np.int64)

    def fold(self, tile: Tile, weights: Array) -> None:
        """−∞ is what cannot be seen."""
        self.found[self.at] += np.count_nonzero(tile.scores != -np.inf, axis=-1)


class Squares(ByRow):
    """Σ p²."""

    def fold(self, tile: Tile, weights: Array) -> None:
        """Squares add up."""
        self.found[self.at] += np.einsum("rw,rw->r", weights, weights)


class RowSums(ByRow):
    """Σ_j p_ij f(i, j)."""

    def __init__(self, replay: Replay, factor: Callable[[Array, Array], Array]) -> None:
        super().__init__(replay)
        self.factor = factor  # rows (R,), keys (W,) → (R, W)

    def fold(self, tile: Tile, weights: Array) -> None:
        """A dot product a row."""
        keys = np.arange(tile.start, tile.start + weights.shape[1])
        factor = self.factor(tile.rows, keys).astype(weights.dtype)
        self.found[self.at] += np.einsum("rw,rw->r", weights, factor)
