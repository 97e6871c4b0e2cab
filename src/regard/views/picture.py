"""Weights where they are looked at: over pictures, and beside them the tokens that are no patch.

    overlay(head, query=i)   row i: the weight that query i gives each key, over the keys' grids
    overlay(head, key=j)     column j: the weight that each query gives key j, over the queries'
    received_overlay(head)   the mean weight of each key, over the rows that may see it

A row is one replayed row and a column one tile of keys for every row: O(N) numbers, never N × N.
NaN stands where a row may not look or was not recorded, ∞ where q and k give no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.axes import Axis, Cell, Grid, Part
from regard.errors import InputError
from regard.recording import Head
from regard.recording.visibility import seen_cells
from regard.views.encoding import as_json
from regard.views.row import own_row
from regard.views.schema_sight import PartMassAnswer, SpotAnswer
from regard.views.uniform import times_uniform

Kind: TypeAlias = Literal["row", "column", "received"]
_Numbers: TypeAlias = NDArray[np.float32]


class Box(NamedTuple):
    """A part of a picture, in fractions of its width and height."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Place:
    """Where a grid lies: the pictures it covers and, of a window of patches (Swin), its part."""

    start: int  # position of its first token on its axis
    grid: Grid
    window: int = 0  # which of grid.windows, row by row

    @property
    def first(self) -> int:
        """Position of its first patch."""
        return self.start + self.grid.prefix

    @property
    def picture(self) -> int:
        """The picture of frame 0, of which frame f is picture + f; −1 where it lies on none."""
        own = self.grid.picture
        return own + self.window if own >= 0 and self.grid.apart else own

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of patches on the whole picture."""
        return self.grid.size

    @property
    def corner(self) -> tuple[int, int]:
        """Row and column on the whole picture of its first patch; later ones go on from there,
        beyond the last row and column at the first."""
        if self.grid.apart:
            return 0, 0
        high, wide = self.grid.padded
        row, column = divmod(self.window, self.grid.windows[1])
        shift = self.grid.shift
        return (row * self.grid.height + shift) % high, (column * self.grid.width + shift) % wide

    def box(self, row: int, column: int) -> Box:
        """Where the patch of this row and column of the grid lies on the picture; beyond its end
        where a window reaches so far."""
        (high, wide), (top, left), (down, across) = self.size, self.corner, self.grid.padded
        return Box((left + column) % across / wide, (top + row) % down / high, 1 / wide, 1 / high)

    def over_picture(self, laid: NDArray[Any]) -> NDArray[Any]:
        """(frames, rows, columns) of the whole picture from (frames, height, width) of the grid;
        NaN outside a window."""
        high, wide = self.size
        if (high, wide) == laid.shape[1:] and self.corner == (0, 0):
            return laid
        padded = self.grid.padded
        found = np.full((laid.shape[0], *padded), np.nan, laid.dtype)
        down, across = (
            (start + np.arange(count)) % size
            for start, count, size in zip(self.corner, laid.shape[1:], padded, strict=True)
        )
        found[:, down[:, None], across] = laid
        return found[:, :high, :wide]


@dataclass(frozen=True)
class GridOverlay:
    """Numbers over one grid."""

    place: Place
    weights: _Numbers  # (frames, height, width)
    times: _Numbers  # (frames, height, width): as a multiple of uniform
    prefix: tuple[tuple[str, float, float], ...]  # name, weight, × uniform: class, registers

    @property
    def picture(self) -> int:
        """The number of frame 0's picture; −1 where it lies on none."""
        return self.place.picture

    @property
    def start(self) -> int:
        """Position of its first token, the prefix included."""
        return self.place.start

    @property
    def grid(self) -> Grid:
        """As the axis has it."""
        return self.place.grid


@dataclass(frozen=True)
class PartMass:
    """A part of an axis and the weight on it: Σ over its positions; of a grid on its patches,
    with the prefix told apart."""

    start: int
    part: Part
    mass: float
    prefix: float = 0.0

    def as_answer(self) -> PartMassAnswer:
        """For JSON."""
        return {
            "start": self.start, "kind": self.part.kind, "count": self.part.count,
            "mass": as_json(self.mass), "prefix": as_json(self.prefix),
        }  # fmt: skip


@dataclass(frozen=True)
class Overlay:
    """A row, a column or the received mass, laid out over the positions of the other side."""

    head: Head
    kind: Kind
    at: int | None  # the query of a row, the key of a column
    axis: Axis  # what the numbers stand over
    tokens: list[str] | None  # the texts of its text, where known
    window: int  # of windows that are heads
    weights: _Numbers  # (positions,)
    times: _Numbers  # (positions,): as a multiple of what even rows would give

    @property
    def grids(self) -> tuple[GridOverlay, ...]:
        """One for each grid of the axis, in its order."""
        return tuple(self._laid(start, grid) for start, grid in self.axis.grids())

    def _laid(self, start: int, grid: Grid) -> GridOverlay:
        own = slice(start, start + grid.count)
        weights, times = self.weights[own], self.times[own]
        prefix = tuple(
            (grid.name(n), float(weights[n]), float(times[n])) for n in range(grid.prefix)
        )
        place = Place(start, grid, self.window)
        return GridOverlay(place, grid.lay(weights), grid.lay(times), prefix)

    @property
    def masses(self) -> tuple[PartMass, ...]:
        """How the weight divides between the parts of the axis: pictures, text, sound."""
        return tuple(self._mass(start, part) for start, part in self.axis.starts())

    def _mass(self, start: int, part: Part) -> PartMass:
        own = np.nan_to_num(self.weights[start : start + part.count].astype(np.float64), posinf=0)
        prefix = part.prefix if isinstance(part, Grid) else 0
        return PartMass(start, part, float(own[prefix:].sum()), float(own[:prefix].sum()))

    @property
    def on_text(self) -> float:
        """The mass on text, of all its parts together."""
        return sum(one.mass for one in self.masses if one.part.kind == "text")

    def spot(self, position: int) -> Spot:
        """A position of the axis."""
        return spot(self.axis, position, tokens=self.tokens, window=self.window)


@dataclass(frozen=True)
class Spot:
    """One position: what it is called, and where it lies if it is a patch."""

    position: int
    words: str
    part: Part
    cell: Cell | None = None
    picture: int = -1
    box: Box | None = None

    def as_answer(self) -> SpotAnswer:
        """For JSON."""
        return {
            "position": self.position, "words": self.words, "kind": self.part.kind,
            "cell": self.cell, "picture": self.picture,
            "box": self.box,
        }  # fmt: skip


def spot(
    axis: Axis, position: int, *, tokens: Sequence[str] | None = None, window: int = 0
) -> Spot:
    """What a position is called in a caption, and its place on a picture."""
    start, part = axis.find(position)
    if not isinstance(part, Grid):
        told = tokens is not None and part.kind == "text" and position < len(tokens)
        words = f"“{tokens[position]}”" if tokens is not None and told else axis.name(position)
        return Spot(position, words, part)
    cell, place = part.cell(position - start), Place(start, part, window)
    name = part.name(position - start)
    if cell is None:
        return Spot(position, name, part, None, place.picture)
    on = place.picture if place.picture < 0 or part.apart else place.picture + cell.frame
    box = place.box(cell.row, cell.column)
    if box.left >= 1 or box.top >= 1:
        return Spot(position, f"padding {name}", part, cell)
    return Spot(position, f"patch {name}", part, cell, on, box)


# ── made from a head ─────────────────────────────────────────────────────────────────────────


def window_of(head: Head, axis: Axis) -> int:
    """Which window of patches a head stands for: its number ÷ heads of the module; 0 without
    windows."""
    for _, grid in axis.grids():
        count = grid.windows[0] * grid.windows[1]
        if count > 1:
            return head.head // max(head.place.total_heads // count, 1)
    return 0


def overlay(head: Head, *, query: int | None = None, key: int | None = None) -> Overlay:
    """What a query looks at, or who looks at a key; exactly one of them is given."""
    if (query is None) == (key is None):
        raise InputError("overlay: give query or key, one of them")
    if query is not None:
        return _row(head, own_row(head, query))
    assert key is not None
    return _column(head, _own_key(head, key))


def _row(head: Head, row: int) -> Overlay:
    """Row `row` (keys,); × uniform: the weight times how many keys the row may see."""
    weights = np.asarray(head[row, :], np.float64)
    seen = seen_cells(head.sight, np.array([row]), np.arange(head.shape[1]))[0]
    return _over(head, "row", row, _told(weights, seen), np.float64(np.count_nonzero(seen)))


def _column(head: Head, key: int) -> Overlay:
    """Column `key` (queries,); × uniform: each weight times how many keys its row may see."""
    rows = np.arange(head.recorded.start, head.recorded.stop)
    weights, lengths = (np.full(head.shape[0], np.nan) for _ in range(2))
    seen = seen_cells(head.sight, rows, np.array([key]))[:, 0]
    weights[rows] = _told(np.asarray(head[head.recorded.start : head.recorded.stop, key]), seen)
    lengths[rows] = head.visible()
    return _over(head, "column", key, weights, lengths)


def received_overlay(head: Head) -> Overlay:
    """The mean weight each key receives from the rows that may see it; × uniform: the mass it
    receives over what it would receive if all rows looked evenly."""
    count, mass = head.sight.seen(), np.asarray(head.received(), np.float64)
    weights = np.where(count > 0, mass / np.maximum(count, 1), np.nan)
    even = head.sight.even()
    times = times_uniform(np.where(count > 0, mass, np.nan), even)
    return _made(head, "received", None, weights, times)


def _told(weights: NDArray[Any], seen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """NaN where masked, ∞ where a weight is no number."""
    return np.where(seen, np.where(np.isnan(weights), np.inf, weights), np.nan)


def _over(head: Head, kind: Kind, at: int, weights: Any, lengths: Any) -> Overlay:
    return _made(head, kind, at, weights, weights * lengths)


def _made(head: Head, kind: Kind, at: int | None, weights: Any, times: Any) -> Overlay:
    is_column = kind == "column"
    axis = head.query_axis if is_column else head.key_axis
    tokens = head.query_tokens if is_column else head.key_tokens
    window = window_of(head, axis)
    numbers = [np.asarray(one, np.float32) for one in (weights, times)]
    return Overlay(head, kind, at, axis, tokens, window, *numbers)


def overlay_bytes(overlays: Iterable[Overlay]) -> bytes:
    """Of each: weights (positions,), then × uniform (positions,), float32."""
    parts = (array.astype("<f4") for one in overlays for array in (one.weights, one.times))
    return b"".join(array.tobytes() for array in parts)


def _own_key(head: Head, key: int) -> int:
    own = key + head.shape[1] if key < 0 else key
    if 0 <= own < head.shape[1]:
        return own
    raise InputError(f"key {key} does not exist; {head.label} has 0–{head.shape[1] - 1}")
