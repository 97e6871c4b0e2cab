"""Pooled maps of a few heads, now and then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.engine.matrix import Attention
from regard.errors import InputError
from regard.monitor.sample import Seat

__all__ = ["Album", "Snapshots"]


@dataclass(frozen=True)
class Snapshots:
    """Which heads, how often, how fine: the map of the first sequence of the step's first batch.

    heads   labels, such as ("L0H3", "L5H1")
    every   steps; those that are sampled anyway count
    cells   at most so many a side
    """

    heads: tuple[str, ...]
    every: int = 100
    cells: int = 64

    def __post_init__(self) -> None:
        wrong = [one for one in self.heads if not one.rpartition("H")[2].isdecimal()]
        if wrong or isinstance(self.heads, str) or not self.heads:
            raise InputError(f"Snapshots(heads={self.heads!r}); give labels such as ('L0H3',)")
        if self.every < 1 or self.cells < 1:
            raise InputError(f"every={self.every}, cells={self.cells}; give numbers ≥ 1")


class Album:
    """The maps of one step."""

    def __init__(self, wanted: Snapshots | None) -> None:
        self._wanted = wanted
        self._due = False
        self.maps: dict[str, NDArray[np.float32]] = {}

    def begin(self, step: int) -> None:
        """A step that is sampled."""
        self.maps = {}
        self._due = self._wanted is not None and step % self._wanted.every == 0

    def look(self, seat: Seat, attention: Attention) -> None:
        """Keep the maps of chosen heads, of the first forward that has them."""
        if not self._due or self._wanted is None:
            return
        chosen = [n for n in range(seat.heads) if f"{seat.label}H{n}" in self._wanted.heads]
        if not chosen or f"{seat.label}H{chosen[0]}" in self.maps:
            return
        cell = -(-max(attention.shape[-2:]) // self._wanted.cells)
        pooled = attention.pooled(cell).detach()
        first = pooled.reshape(-1, seat.heads, *pooled.shape[-2:])[0].float().cpu().numpy()
        self.maps |= {f"{seat.label}H{n}": first[n] for n in chosen}
