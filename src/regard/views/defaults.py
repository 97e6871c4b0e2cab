"""What is shown before anybody chooses: the statistic that tells heads apart, the head to open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.recording import Merged, PromptView
from regard.study.surprise import deviations

# Shares of attention that a newcomer can read, the most general first.
_CANDIDATES: Final = ("non_sink", "normalized_entropy", "first", "previous", "self", "delimiter")
_APART: Final = 0.25  # from the lowest tenth of heads to the highest
_FEW: Final = 3  # heads: a layer with fewer has no middle
_Grid: TypeAlias = NDArray[np.float64]


def telling_statistic(of: PromptView | Merged) -> str:
    """The first candidate by which heads lie clearly apart, else the one by which they lie most."""
    spreads = {
        name: _spread(of.grid(name, stack) for stack in of.stacks)
        for name in _CANDIDATES
        if name in of.statistic_kinds
    }
    return _first_apart(spreads)


def telling_grid(grids: Mapping[str, Iterable[Any]]) -> str:
    """The same of grids as answers have them; None where one cannot be read."""
    known = {name: [np.array(one, np.float64) for one in grids.get(name, ()) if one is not None]
             for name in _CANDIDATES}  # fmt: skip
    return _first_apart({name: _spread(some) for name, some in known.items()})


def _first_apart(spreads: Mapping[str, float]) -> str:
    clear = [name for name, spread in spreads.items() if spread >= _APART]
    return clear[0] if clear else max(spreads, key=lambda name: spreads[name], default="non_sink")


def _spread(grids: Iterable[_Grid]) -> float:
    flat = [one[np.isfinite(one)] for one in grids]
    known = np.concatenate(flat) if flat else np.zeros(0)
    return float(np.subtract(*np.quantile(known, (0.9, 0.1)))) if known.size else -1.0


def farthest_head(grids: Mapping[str, _Grid]) -> tuple[str, int, int] | None:
    """Stack, layer and head of the number that lies farthest from its layer's, or from its stack's
    where layers have fewer than three heads; None where nothing is known."""
    found: tuple[float, tuple[str, int, int]] | None = None
    for stack, grid in grids.items():
        groups = grid if grid.shape[1] >= _FEW else grid.reshape(1, -1)
        away = np.stack([deviations(row)[0] for row in groups]).reshape(grid.shape)
        if not np.isfinite(away).any():
            continue
        layer, head = np.unravel_index(int(np.nanargmax(away)), grid.shape)
        far = float(away[layer, head])
        if found is None or far > found[0]:
            found = far, (stack, int(layer), int(head))
    return None if found is None else found[1]
