"""One step's tally → a sample: gradients added, all ranks joined, sums turned into means."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.monitor.gradients import squares_of_gradient
from regard.monitor.measure import SUMMED
from regard.monitor.projections import find_projections
from regard.monitor.ranks import Ranks
from regard.monitor.sample import Sample, Seat
from regard.monitor.tally import Tally

__all__ = ["Gather"]

_Array = NDArray[Any]


class Gather:
    """Knows the places of a model, in the order that all ranks have agreed on."""

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.layout: list[Seat] = []
        self.reasons: dict[str, str] = {}  # by place: why its gradient norms are not known
        self._model, self._ranks = model, ranks

    def sample(self, step: int, tally: Tally, maps: dict[str, Any]) -> Sample | None:
        """The step's numbers, from two reductions over the ranks; None where nothing was heard."""
        if not self.layout or self._ranks.count == 1:
            self._agree(tally)
        if not self.layout:
            return None
        device = self._ranks.device(tally.device)
        known = {seat.label for seat in self.layout}
        largest, sums = tally.packed(self.layout)
        squares = self._gradients(sums)
        news = sums.new_tensor([float(any(label not in known for label in tally.seats))])
        packed = torch.cat([part.flatten().to(device) for part in (sums, squares, news)])
        largest, packed = self._ranks.reduce(largest.to(device), packed)
        told = packed.cpu().numpy()
        shapes = (tuple(sums.shape), tuple(squares.shape))
        sample = self._finished(step, largest.cpu().numpy(), told, shapes, maps)
        if told[-1] > 0:  # all ranks see that one of them heard a new place
            self._agree(tally)
        return sample

    def _agree(self, tally: Tally) -> None:
        """Take up the places that any rank heard, behind those that are known."""
        known = {seat.label for seat in self.layout}
        fresh = [seat for label, seat in tally.seats.items() if label not in known]
        stacks = list(dict.fromkeys(_parts(seat)[0] for seat in fresh))
        fresh.sort(key=lambda seat: (stacks.index(_parts(seat)[0]), _parts(seat)[1]))
        self.layout = self._ranks.agree([*self.layout, *fresh])

    def _gradients(self, sums: Tensor) -> Tensor:
        """(places, 2, heads): shares of the sums of squares of w_q's and w_k's gradients."""
        found = sums.new_full((len(self.layout), 2, sums.shape[-1]), torch.nan)
        self.reasons = {}
        for at, seat in enumerate(self.layout):
            module = self._model.get_submodule(seat.path)
            where = find_projections(module, seat.heads, seat.dim)
            if isinstance(where, str):
                self.reasons[seat.label] = where
                continue
            for n, projection in enumerate((where.query, where.key)):
                squares = squares_of_gradient(projection, self._ranks.count)
                if isinstance(squares, str):
                    self.reasons[seat.label] = squares
                    continue
                group = seat.heads // projection.heads
                found[at, n, : seat.heads] = squares.repeat_interleave(group).to(found)
        return found

    def _finished(
        self,
        step: int,
        largest: _Array,
        told: _Array,
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
        maps: dict[str, Any],
    ) -> Sample:
        split = int(np.prod(shapes[0]))
        sums, squares = told[:split].reshape(shapes[0]), told[split:-1].reshape(shapes[1])
        total = {name: sums[:, n] for n, name in enumerate(SUMMED)}
        with np.errstate(invalid="ignore", divide="ignore"):
            values = {
                "normalized_entropy": total["normalized_entropy"] / total["choosing_rows"],
                "max_score": np.where(total["rows"] > 0, largest, np.nan),
                "peak": total["peak"] / total["rows"],
                "sink_mass": total["sink_mass"] / total["rows"],
                "grad_w_q": np.sqrt(squares[:, 0]),
                "grad_w_k": np.sqrt(squares[:, 1]),
            }
        plain = {name: value.astype(np.float32) for name, value in values.items()}
        return Sample(step, tuple(seat.label for seat in self.layout), plain, maps)


def _parts(seat: Seat) -> tuple[str, int]:
    """Its stack and its layer."""
    stack, _, layer = seat.label.rpartition("L")
    return stack, int(layer)
