"""The heaviest keys of each row, as tiles pass by. Equal scores go to the lower key."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.recording.collect import Measuring
from regard.recording.replay import Block, Replay, Tile
from regard.recording.store import Array
from regard.summary import Summary, Top, TopScored

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
