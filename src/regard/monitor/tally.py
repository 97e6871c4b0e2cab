"""The sums of one step: of every place, over all its forwards."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.monitor.measure import SUMMED, Sums
from regard.monitor.sample import Seat

__all__ = ["Tally"]


class Tally:
    """Sums by place. Heads keep their numbers; a shape that changes within a step is the last."""

    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}
        self._sums: dict[str, Sums] = {}

    def add(self, seat: Seat, sums: Sums) -> None:
        """One more call of this place."""
        before = self._sums.get(seat.label) if self.seats.get(seat.label) == seat else None
        self.seats[seat.label] = seat
        self._sums[seat.label] = sums if before is None else before.joined(sums)

    @property
    def device(self) -> torch.device | None:
        """Where its numbers are; None while there are none."""
        return next((one.largest.device for one in self._sums.values()), None)

    def packed(self, layout: list[Seat]) -> tuple[Tensor, Tensor]:
        """(places, heads) largest and (places, len(SUMMED), heads) sums, in this order of places;
        −∞ and 0 where nothing was heard."""
        heads = max((seat.heads for seat in layout), default=0)
        device = self.device or torch.device("cpu")
        exact = torch.float32 if device.type == "mps" else torch.float64
        largest = torch.full((len(layout), heads), -torch.inf, device=device)
        sums = torch.zeros(len(layout), len(SUMMED), heads, dtype=exact, device=device)
        for at, seat in enumerate(layout):
            one = self._sums.get(seat.label)
            if one is not None and one.largest.shape[0] == seat.heads:
                largest[at, : seat.heads] = one.largest.to(largest)
                sums[at, :, : seat.heads] = one.sums.to(sums)
        return largest, sums
