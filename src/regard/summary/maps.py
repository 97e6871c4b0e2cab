"""The whole matrix at a glance: cells of tokens, each one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from regard.arrays import filled, library, padded
from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.summary.base import Matrix, Summary

if TYPE_CHECKING:
    from torch import Tensor

_MOST_CELLS = 512  # a side, where the caller names no cell size


class Pooled(Summary):
    """(…, Hq, ⌈L/cell⌉, ⌈S/cell⌉): mean or largest weight in each cell × cell square.

    Masked cells count as 0; the squares at the ragged edges are divided by their true area.
    """

    tag = "pooled/1"
    about = "matrix"
    name, words = "pooled", "the matrix in squares"

    cell: int | None = None
    how: Literal["mean", "max"] = "mean"

    def __post_init__(self) -> None:
        if self.cell is not None and (type(self.cell) is not int or self.cell < 1):
            raise InputError(f"Pooled(cell={self.cell!r}); give a whole number ≥ 1, or None")
        if self.how not in ("mean", "max"):
            raise InputError(f"Pooled(how={self.how!r}); give 'mean' or 'max'")

    def size(self, shape: AttentionShape) -> int:
        """Tokens a cell: as given, or so that no side has more than 512 cells."""
        longest = max(shape.queries, shape.keys, 1)
        return self.cell if self.cell is not None else -(-longest // _MOST_CELLS)

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Pad with 0 to whole cells, reduce, divide by the area inside."""
        cell = self.size(shape)
        down, across = -shape.queries % cell, -shape.keys % cell
        whole = padded(matrix.weights, (shape.queries + down, shape.keys + across))
        *lead, tall, wide = whole.shape
        squares = whole.reshape(*lead, tall // cell, cell, wide // cell, cell)
        if self.how == "max":
            return squares.amax((-3, -1)) if squares.numel() else squares.sum((-3, -1))
        return squares.sum((-3, -1)) / self.area(shape, matrix.weights)

    def area(self, shape: AttentionShape, like: Any) -> Any:
        """(R, C): how many cells of the matrix lie in each square, in the dtype of `like`."""
        cell = self.size(shape)
        sides = [filled(like, (-(-n // cell),), cell) for n in (shape.queries, shape.keys)]
        for side, n in zip(sides, (shape.queries, shape.keys), strict=True):
            if n % cell:
                side[-1:] -= cell - n % cell  # not set: a GPU would be sent the number
        return sides[0][:, None] * sides[1][None, :]

    def tensors(self, shape: AttentionShape) -> list[tuple[tuple[int, ...], bool]]:
        cell = self.size(shape)
        down, across = -(-shape.queries // cell), -(-shape.keys // cell)
        return [((*shape.batch, shape.query_heads, down, across), False)]

    def in_blocks(self, shape: AttentionShape, like: Tensor) -> PooledInBlocks:
        return PooledInBlocks(self, shape, like)


class PooledInBlocks:
    """The pooled matrix, as far as blocks have filled it. A map counts cells from a block's first
    token, so blocks begin where cells do."""

    def __init__(self, summary: Pooled, shape: AttentionShape, like: Tensor) -> None:
        self.shape, self.cell = shape, summary.size(shape)
        self.asked = Pooled(self.cell, summary.how)
        self.join: Literal["sum", "max"] = "max" if summary.how == "max" else "sum"
        side = -(-shape.keys // self.cell)
        self.cells = like.new_zeros((*like.shape[:-1], side, side))

    def add(self, row: int, col: int, found: Tensor, shape: AttentionShape) -> None:
        """Cells of one block, divided by their area inside the block."""
        down, across = row // self.cell, col // self.cell
        tall, wide = found.shape[-2:]
        here = self.cells[..., down : down + tall, across : across + wide]
        if self.join == "max":
            library(here).maximum(here, found, out=here)
        else:
            here += found * self.asked.area(shape, found)

    def close(self, cells: Tensor) -> Tensor:
        """Sums by the area inside the whole."""
        return cells if self.join == "max" else cells / self.asked.area(self.shape, cells)
