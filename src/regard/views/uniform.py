"""× uniform, the one colour of attention: how many times more a cell holds than it would if every
row looked at all the keys it may see alike. Defined here alone; terminal, plots, tiles, thumbnails
and pages draw what is made here.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour.scale import TIMES_UNIFORM, Scale, linear, times_uniform_of
from regard.recording import Head, PromptView
from regard.recording.layer import areas
from regard.recording.visibility import Sight, uniform_cells
from regard.views.encoding import as_json
from regard.views.schema import CellsAnswer, How, ScaleAnswer

HIDDEN: Final = 0  # the code of what no recorded row may see, and of what lies beyond the matrix
_CODES: Final = 254  # steps from the first code of the scale, 1, to the last, 255
_Array: TypeAlias = NDArray[Any]
_Numbers: TypeAlias = NDArray[np.float64]


def times_uniform(mass: _Array, even: _Array) -> _Array:
    """Mass ÷ what even rows would give, cell by cell; NaN where nothing may be seen."""
    return mass / np.where(even == 0, np.nan, even)


# ── codes: what is drawn as pixels ───────────────────────────────────────────────────────────


class Codes(NamedTuple):
    """What is drawn."""

    codes: NDArray[np.uint8]  # (R, C): 0 hidden, 1 … 255 along TIMES_UNIFORM
    nan: int  # pixels that are no number, which are drawn as hidden; in all of a stored map


def codes_of(mass: _Array, even: _Array) -> Codes:
    """(R, C) as codes: mass, beside what even rows would give."""
    return encode_times(times_uniform(mass, even), even == 0)


def encode_times(times: _Array, hidden: _Array) -> Codes:
    """(R, C) multiples of uniform as codes."""
    broken = np.isnan(times) & ~hidden
    shares = TIMES_UNIFORM.shares(np.where(hidden | broken, 0.0, times))
    codes = (np.rint(shares * _CODES) + 1).astype(np.uint8)
    codes[hidden | broken] = HIDDEN
    return Codes(codes, int(np.count_nonzero(broken)))


def times_of_codes() -> _Numbers:
    """(255,): the multiples of uniform that the codes 1 … 255 stand for."""
    one = TIMES_UNIFORM
    return one.low * (one.high / one.low) ** (np.arange(_CODES + 1) / _CODES)


def scale_answer(keys: int) -> ScaleAnswer:
    """What the codes stand for, and how rows of at most so many keys are coloured."""
    one, shown = TIMES_UNIFORM, times_uniform_of(keys)
    return {"name": shown.name, "low": one.low, "high": one.high, "top": shown.high,
            "log": one.is_log, "hidden": HIDDEN, "first": 1, "last": 1 + _CODES}  # fmt: skip


# ── cells: what is drawn as a matrix ─────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Look:
    """How weights are pooled into cells and coloured."""

    how: How = "mean"
    raw: bool = False  # by weight, instead of times uniform

    def scale(self, weights: _Numbers, keys: int) -> Scale:
        """The scale for these weights, or for their multiples of uniform, of so many keys."""
        return linear("weight", weights) if self.raw else times_uniform_of(keys)


@dataclass(frozen=True)
class MapCells:
    """MapCells of `cell` × `cell` tokens, from the first recorded row on."""

    cell: int
    how: How
    first_row: int
    keys: int  # of the head
    weights: _Numbers  # (R, C): NaN where masked
    times: _Numbers  # (R, C): as a multiple of what uniform attention would give

    def pooling(self, times: str = "×") -> str:
        """What a cell is, in words."""
        return pooling(self.cell, self.how, times)

    def scale(self, look: Look) -> Scale:
        """By which it is coloured."""
        return look.scale(self.weights, self.keys)

    def shares(self, look: Look) -> _Numbers:
        """Of the scale; NaN where masked."""
        return self.scale(look).shares(self.weights if look.raw else self.times)

    def as_answer(self) -> CellsAnswer:
        """For JSON; null where masked."""
        return {
            "cell": self.cell, "how": self.how, "first_row": self.first_row,
            "weights": as_json(self.weights), "times_uniform": as_json(self.times),
        }  # fmt: skip


def pooling(cell: int, how: How, times: str = "×") -> str:
    """What a cell of a map is, in words."""
    return f"{how} of {cell}{times}{cell} tokens a cell" if cell > 1 else "one token a cell"


def sight_of(prompt: PromptView, head: Head) -> Sight:
    """What the head's rows may see."""
    return Sight(prompt.held(head.place.label), head.head)


def fitting_cell(head: Head, side: int, how: How) -> int:
    """The fewest tokens a cell with which the map has at most `side` cells a side. A stored map
    is made coarser rather than computed anew."""
    cell = max(-(-max(len(head.recorded), head.shape[1]) // side), 1)
    own = head.place.pool_cell
    is_stored = how == "mean" and head.has("pooled") and own > 0
    if is_stored and (cell >= own or not head.exact):
        return -(-cell // own) * own
    return cell


def make_cells(prompt: PromptView, head: Head, cell: int, how: How) -> MapCells:
    """The map in cells of that size; UnavailableError where it was not kept and cannot be made."""
    weights = np.asarray(head.pooled(cell, how), np.float64)
    even = uniform_cells(sight_of(prompt, head), cell)
    hidden = even == 0
    if how == "mean":
        times = times_uniform(weights, even)
    else:
        times = weights * _row_lengths(head, cell)[:, None]
    first, last = head.recorded.start // cell, -(-head.recorded.stop // cell)
    shown = [np.where(hidden, np.nan, one)[first:last] for one in (weights, times)]
    return MapCells(cell, how, first * cell, head.shape[1], *shown)


def _row_lengths(head: Head, cell: int) -> _Numbers:
    """(R,): how many keys the rows of each line of cells may see, on average."""
    rows = np.arange(head.recorded.start, head.recorded.stop) // cell
    lines = -(-head.shape[0] // cell)
    totals = np.bincount(rows, weights=head.visible(), minlength=lines)
    return totals / np.maximum(np.bincount(rows, minlength=lines), 1)


# ── sums: what even rows hold ────────────────────────────────────────────────────────────────


def even_sums(sight: Sight, cell: int) -> _Numbers:
    """(⌈queries/cell⌉, ⌈keys/cell⌉): what even rows would sum to in each cell."""
    place = sight.held.place
    return uniform_cells(sight, cell) * areas((place.queries, place.keys), cell)


def mask_kind(sight: Sight) -> Hashable:
    """The same for heads of one prompt that see the same."""
    held, place = sight.held, sight.held.place
    own = sight.head if held.masks_differ else None
    return place.segments, place.queries, place.keys, (held.rows.start, held.rows.stop), own
