"""Sums of exponentials and the entropy of rows that come tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.recording.store import Array


class OnlineSum:
    """With m the largest score so far: Z = Σ exp(s − m) and U = Σ exp(s − m)·(s − m).

    When m grows by δ, U becomes e^−δ (U − δ Z) and Z becomes e^−δ Z. Then lse = m + log Z and the
    entropy is log Z − U/Z.
    """

    def __init__(self, rows: int, dtype: np.dtype[Any]) -> None:
        self.peak = np.full(rows, -np.inf, dtype)
        self.total = np.zeros(rows, np.float64)
        self.centred = np.zeros(rows, np.float64)

    def fold(self, scores: Array) -> None:
        """One more tile (R, W)."""
        self._add(scores, scores.max(-1))

    def _add(self, scores: Array, highest: Array) -> None:
        peak = np.maximum(self.peak, highest)
        base = np.where(peak == -np.inf, peak.dtype.type(0), peak)
        with np.errstate(invalid="ignore"):
            delta = np.where(self.peak == -np.inf, 0.0, self.peak - base).astype(np.float64)
            shrink = np.where(self.peak == -np.inf, 0.0, np.exp(delta))
            u = scores - base[:, None]
            p = np.exp(u)
            np.copyto(u, 0, where=p == 0)  # 0·(−∞) = 0
            self.centred = shrink * (self.centred + delta * self.total)
            self.centred += np.einsum("rw,rw->r", p, u)
            self.total = shrink * self.total + p.sum(-1)
        self.peak = peak

    def with_sink(self, sink: float | None) -> OnlineSum:
        """The same with the sink as one more key."""
        if sink is None:
            return self
        more = OnlineSum(self.peak.size, self.peak.dtype)
        more.peak, more.total, more.centred = self.peak, self.total, self.centred
        column = np.full((self.peak.size, 1), sink, self.peak.dtype)
        more._add(column, column[:, 0])
        return more

    def lse(self, sink: float | None) -> tuple[Array, Array]:
        """(R,) twice, whose sum it is: the largest score and a log; −∞ where nothing was seen."""
        full = self.with_sink(sink)
        logs = np.log(np.where(full.total == 0, 1.0, full.total))
        return full.peak, logs.astype(self.peak.dtype)

    def entropy(self, sink: float | None) -> Array:
        """(R,): in nats, 0 where nothing was seen."""
        full = self.with_sink(sink)
        total = np.where(full.total == 0, 1.0, full.total)
        return (np.log(total) - full.centred / total).astype(self.peak.dtype)
