"""One monitored step: a dense array of places × heads for each statistic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["STATISTICS", "Sample", "Seat"]

_Array = NDArray[np.float32]

STATISTICS: Final[dict[str, str]] = {
    "normalized_entropy": "mean entropy of a row ÷ log(visible keys), rows with a choice only",
    "max_score": "largest scale·q·k of any row and visible key, before cap and bias; inf where a "
    "score is NaN or infinite",
    "peak": "mean weight of a row's heaviest key",
    "sink_mass": "mean weight of the first token, and of the learned sink where there is one",
    "grad_w_q": "norm of the gradient of the head's part of w_q",
    "grad_w_k": "norm of the gradient of the head's part of w_k; of its group's where shared",
}


class Seat(NamedTuple):
    """A place that was heard: one attention of a model."""

    label: str  # L5, cross.L5
    path: str  # of the module
    heads: int
    dim: int  # of queries and keys


@dataclass(frozen=True)
class Sample:
    """What one step was like. `values[name][place, head]` is NaN where a head was not heard."""

    step: int
    places: tuple[str, ...]  # labels, one a row
    values: dict[str, _Array]  # (places, heads) float32 each, by the names of STATISTICS
    maps: dict[str, _Array] = field(default_factory=dict)  # pooled maps by head, where asked for

    def __getitem__(self, statistic: str) -> _Array:
        return self.values[statistic]

    def heads(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Every head that was heard: its label and its numbers."""
        heard = ~np.isnan(self.values["max_score"])
        for place, head in zip(*np.nonzero(heard), strict=True):
            numbers = {name: float(value[place, head]) for name, value in self.values.items()}
            yield f"{self.places[place]}H{head}", numbers

    def scalars(self, heads: bool = False) -> dict[str, float]:
        """Flat names for loggers: least, mean and largest over all heads; every head, if asked."""
        found: dict[str, float] = {}
        for name, value in self.values.items():
            known = value[~np.isnan(value)]
            if known.size:
                found[f"attention/{name}/min"] = float(known.min())
                found[f"attention/{name}/mean"] = float(known.mean(dtype=np.float64))
                found[f"attention/{name}/max"] = float(known.max())
        if heads:
            for label, numbers in self.heads():
                known_ones = {n: v for n, v in numbers.items() if not np.isnan(v)}
                found |= {f"attention/{name}/{label}": v for name, v in known_ones.items()}
        return found

    def __repr__(self) -> str:
        shape: Any = next(iter(self.values.values())).shape if self.values else ()
        return f"Sample(step={self.step}, {' × '.join(map(str, shape))} heads)"
