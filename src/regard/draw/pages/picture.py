"""A head's matrix in cells that fit the paper: weights, and how many times uniform they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.colour.scale import TIMES_UNIFORM, Scale, linear
from regard.draw.heat import LABELLED, Axis, heat_map
from regard.draw.pages.words import as_json
from regard.draw.paper import Paper, StyledLine
from regard.draw.scale import scale_lines
from regard.recording import Head, PromptView
from regard.recording.visibility import Sight, uniform_cells

How: TypeAlias = Literal["mean", "max"]
_Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Look:
    """How weights are pooled into cells and coloured."""

    how: How = "mean"
    raw: bool = False  # by weight, instead of times uniform

    def scale(self, weights: _Numbers) -> Scale:
        """The scale for these weights, or for their multiples of uniform."""
        return linear("weight", weights) if self.raw else TIMES_UNIFORM


@dataclass(frozen=True)
class Picture:
    """Cells of `cell` × `cell` tokens, from the first recorded row on."""

    cell: int
    how: How
    rows: Axis
    keys: Axis
    weights: _Numbers  # (R, C): NaN where masked
    times: _Numbers  # (R, C): the same, as a multiple of what uniform attention would give

    def as_dict(self) -> dict[str, Any]:
        """For JSON; null where masked."""
        return {
            "cell": self.cell,
            "how": self.how,
            "first_row": self.rows.start,
            "first_key": self.keys.start,
            "weights": as_json(self.weights),
            "times_uniform": as_json(self.times),
        }


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


def make_picture(prompt: PromptView, head: Head, cell: int, how: How) -> Picture:
    """The map in cells of that size; UnavailableError where it was not kept and cannot be made."""
    weights = np.asarray(head.pooled(cell, how), np.float64)
    uniform = uniform_cells(sight_of(prompt, head), cell)
    is_hidden = uniform == 0
    if how == "mean":
        times = weights / np.where(is_hidden, np.nan, uniform)
    else:
        times = weights * _row_lengths(head, cell)[:, None]
    first, last = head.recorded.start // cell, -(-head.recorded.stop // cell)
    rows, keys = Axis(first * cell, cell), Axis(0, cell)
    shown = slice(first, last)
    picture = Picture(
        cell, how, rows, keys,
        np.where(is_hidden, np.nan, weights)[shown], np.where(is_hidden, np.nan, times)[shown],
    )  # fmt: skip
    return _with_tokens(picture, head) if cell == 1 else picture


def draw_picture(picture: Picture, look: Look, paper: Paper) -> list[StyledLine]:
    """The map and its scale."""
    scale = look.scale(picture.weights)
    shares = scale.shares(picture.weights if look.raw else picture.times)
    return [
        *heat_map(shares, picture.rows, picture.keys, paper),
        *scale_lines(scale, paper, pooling(picture.cell, picture.how, paper)),
    ]


def pooling(cell: int, how: How, paper: Paper) -> str:
    """What a cell of a map is, in words."""
    return f"{how} of {cell}{paper.times}{cell} tokens a cell" if cell > 1 else "one token a cell"


def _row_lengths(head: Head, cell: int) -> _Numbers:
    """(R,): how many keys the rows of each line of cells may see, on average."""
    rows = np.array(head.recorded) // cell
    lines = -(-head.shape[0] // cell)
    totals = np.bincount(rows, weights=head.visible(), minlength=lines)
    return totals / np.maximum(np.bincount(rows, minlength=lines), 1)


def _with_tokens(picture: Picture, head: Head) -> Picture:
    """Tokens on both axes, where there are few enough to be read."""
    queries, keys = head.query_tokens, head.key_tokens
    if queries is None or keys is None or max(picture.weights.shape) > LABELLED:
        return picture
    own = queries[head.recorded.start : head.recorded.stop]
    if (len(own), len(keys)) != picture.weights.shape:
        return picture  # an unfinished recording may have rows before it has their tokens
    return replace(
        picture, rows=replace(picture.rows, tokens=own), keys=replace(picture.keys, tokens=keys)
    )
