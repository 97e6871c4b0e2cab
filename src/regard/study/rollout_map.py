"""Attention rollout over a picture: which of its patches a token of the last layer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from regard.axes import Axis, Cell, Grid
from regard.errors import InputError, UnavailableError
from regard.recording import PromptView, Recording
from regard.recording.stores import Array
from regard.study.heads import Recorded, opened, prompt_of
from regard.study.rollout import CAUTION, layers_of, looks_back, rolled

Start: TypeAlias = "int | str | tuple[int, int] | Cell | None"


@dataclass(frozen=True)
class RolloutMap:
    """The share of each patch in one token, laid out as the picture is."""

    start: str  # what it was followed from
    shares: Array  # (positions,) float64; they add up to 1 where no learned sink took any
    maps: tuple[Array, ...]  # (frames, height, width) for each grid of the axis
    axis: Axis
    layers: int
    caution: str  # "" where every layer may look ahead as well as back

    @property
    def on_patches(self) -> float:
        """What all patches have together; the rest is on class and register tokens and on words."""
        return float(sum(one.sum() for one in self.maps))


def roll_out_picture(
    recording: Recording | Recorded,
    start: Start = None,
    *,
    prompt: int = 0,
    stack: str | None = None,
    residual: float = 0.5,
) -> RolloutMap:
    """Which patches a token of a stack's last layer comes from, through all of its layers.

        found = study.roll_out_picture(rec)          # from the class token
        found.maps[0][0]                             # (height, width)

    start      a position; "class" or another name of a token before the patches; (row, column) of a
               patch. By default the class token; the last token, where the picture stands within a
               text; else the mean of all patches
    stack      by default the first one whose keys are patches alone; else one that has some
    """
    view = prompt_of(opened(recording), prompt)
    name = _seeing(view) if stack is None else stack
    layers = list(layers_of(view, name))
    axis = layers[0][0].key_axis
    _check(axis, name, [one[0].key_axis for one in layers])
    words, at = _positions(axis, start)
    y = np.zeros(len(axis))
    y[at] = 1 / len(at)
    shares = rolled(layers, y, residual)
    maps = tuple(grid.lay(shares[first : first + grid.count]) for first, grid in axis.grids())
    is_causal = any(looks_back(view, heads[0]) for heads in layers)
    return RolloutMap(words, shares, maps, axis, len(layers), CAUTION if is_causal else "")


def _seeing(view: PromptView) -> str:
    """The first stack all of whose keys are patches; else the first with any."""
    found: dict[bool, str] = {}
    for label, place in view.places.items():
        axis = view.axes(label)[1]
        if place.kind == "self" and axis.grids():
            found.setdefault(len(axis.grids()) == len(axis.parts), place.stack)
    if found:
        return found[max(found)]
    raise InputError("no keys of this recording are known to be patches of a picture")


def _check(axis: Axis, stack: str, every: list[Axis]) -> None:
    if not axis.grids():
        raise InputError(f"the keys of the stack {stack!r} are no patches of a picture")
    if any(grid.windows != (1, 1) for _, grid in axis.grids()):
        raise UnavailableError(
            "its layers attend within windows, or over several pictures, by themselves; rollout "
            "follows one sequence of patches"
        )
    if any(one != axis for one in every):
        raise UnavailableError("its layers see grids of different sizes; rollout follows one")


def _positions(axis: Axis, start: Start) -> tuple[str, list[int]]:
    """What it is called, and the positions it is the mean of."""
    first, grid = axis.grids()[0]
    names = axis.names
    if start is None:
        if not isinstance(axis.parts[-1], Grid):
            return names[-1], [len(axis) - 1]
        if grid.prefix:
            return names[first], [first]
        return "all patches", [at for n, g in axis.grids() for at in range(n, n + g.count)]
    if isinstance(start, str):
        if start not in names:
            raise InputError(f"start={start!r} is no name of a position; {_have(axis)}")
        return start, [names.index(start)]
    if isinstance(start, tuple):
        frame, row, column = start if len(start) == 3 else (0, *start)
        size = grid.frames, grid.height, grid.width
        if not all(0 <= n < most for n, most in zip((frame, row, column), size, strict=True)):
            raise InputError(f"start={start}: no patch of a grid of {size} (frames, rows, columns)")
        at = first + grid.at(frame, row, column)
        return names[at], [at]
    if not -len(axis) <= start < len(axis):
        raise InputError(f"start={start}: there are the positions 0–{len(axis) - 1}")
    return names[start], [start % len(axis)]


def _have(axis: Axis) -> str:
    _, grid = axis.grids()[0]
    prefix = [grid.name(at) for at in range(grid.prefix)]
    return f"there are {', '.join([*prefix, grid.name(grid.prefix)])} …"
