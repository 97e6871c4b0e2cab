"""Which tokens of one long sequence each rank holds.

    Shards.even(10, 3)       rank 0: 0–3       rank 1: 4–6      rank 2: 7–9
    Shards.zigzag(12, 3)     rank 0: 0–1 10–11 rank 1: 2–3 8–9  rank 2: 4–7

A shard is one or more pieces, each a run of neighbouring tokens. Under a causal mask late tokens
see more than early ones: zig-zag shards give every rank an early piece and a late one, so that
all have the same work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import index
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError, ShapeError


class Piece(NamedTuple):
    """Neighbouring tokens start … stop − 1 of the whole sequence."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many tokens."""
        return self.stop - self.start

    def cut(self, cell: int) -> list[Piece]:
        """The piece in parts of which only the first may begin inside a cell of `cell` tokens."""
        border = min(-(-self.start // cell) * cell, self.stop)
        parts = Piece(self.start, border), Piece(border, self.stop)
        return [part for part in parts if part.length]


EMPTY = Piece(0, 0)


@dataclass(frozen=True)
class Shards:
    """The pieces of every rank; together they are the whole sequence, each token once.

    Tokens of a rank stand in the order of its pieces.
    """

    pieces: tuple[tuple[Piece, ...], ...]

    def __post_init__(self) -> None:
        joined = tuple(_joined(mine) for mine in self.pieces)
        if not joined:
            raise InputError("Shards need at least one rank")
        object.__setattr__(self, "pieces", joined)
        at = 0
        for piece in sorted(piece for mine in joined for piece in mine):
            if piece.start != at:
                wrong = "missing" if piece.start > at else "held twice"
                raise InputError(
                    f"Shards: token {min(at, piece.start)} is {wrong}; the pieces of all ranks "
                    "together must be 0 … tokens − 1, each token once"
                )
            at = piece.stop

    @classmethod
    def contiguous(cls, lengths: Iterable[int]) -> Shards:
        """One piece per rank, of the given lengths, in rank order; a length may be 0."""
        sizes = [_count(n, "a shard's length") for n in lengths]
        ends = list(accumulate(sizes))
        runs = zip(sizes, ends, strict=True)
        return cls(tuple((Piece(end - size, end),) for size, end in runs))

    @classmethod
    def even(cls, tokens: int, world: int) -> Shards:
        """One piece per rank; lengths differ by one at most, the first ranks have the longer."""
        return cls.contiguous(_even(tokens, world))

    @classmethod
    def zigzag(cls, tokens: int, world: int) -> Shards:
        """Two pieces per rank, one from each end, for the balance of causal attention."""
        _count(world, "world", least=1)
        ends = list(accumulate(_even(tokens, 2 * world), initial=0))
        runs = [Piece(a, b) for a, b in pairwise(ends)]
        return cls(tuple((runs[n], runs[-1 - n]) for n in range(world)))

    @property
    def world(self) -> int:
        """The number of ranks."""
        return len(self.pieces)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many tokens each rank holds."""
        return tuple(sum(piece.length for piece in mine) for mine in self.pieces)

    @property
    def tokens(self) -> int:
        """How many tokens the whole sequence has."""
        return sum(self.lengths)

    def positions(self, rank: int) -> Tensor:
        """(n,) int64: where this rank's tokens stand in the whole sequence."""
        runs = [torch.arange(*piece) for piece in self.pieces[rank]]
        return torch.cat([torch.empty(0, dtype=torch.int64), *runs])

    def local(self, rank: int) -> list[tuple[Piece, slice]]:
        """This rank's pieces, each with its place among the rank's own tokens."""
        ends = accumulate(piece.length for piece in self.pieces[rank])
        return [
            (piece, slice(end - piece.length, end))
            for piece, end in zip(self.pieces[rank], ends, strict=True)
        ]

    def take(self, whole: Tensor, rank: int, dim: int = -2) -> Tensor:
        """This rank's tokens of a tensor that has all of them along `dim`."""
        if whole.shape[dim] != self.tokens:
            raise ShapeError(
                f"take: the tensor {tuple(whole.shape)} has {whole.shape[dim]} tokens along axis "
                f"{dim}, the shards have {self.tokens}"
            )
        parts = [whole.narrow(dim, piece.start, piece.length) for piece in self.pieces[rank]]
        if not parts:
            return whole.narrow(dim, 0, 0)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim)

    def join(self, parts: Sequence[Tensor], dim: int = -2) -> Tensor:
        """The whole tensor, from every rank's part in rank order."""
        if tuple(part.shape[dim] for part in parts) != self.lengths:
            raise ShapeError(
                f"join: parts of {[part.shape[dim] for part in parts]} tokens, the shards have "
                f"{list(self.lengths)}"
            )
        runs = [
            (piece, parts[rank].narrow(dim, at.start, piece.length))
            for rank in range(self.world)
            for piece, at in self.local(rank)
        ]
        runs.sort(key=lambda run: run[0])
        return torch.cat([run for _, run in runs], dim) if runs else parts[0]


def check_world(shards: Any, world: int) -> None:
    """Raise unless these are shards of so many ranks."""
    if not isinstance(shards, Shards):
        raise InputError(
            f"shards is a {type(shards).__name__}; give e.g. regard.parallel.Shards.even(tokens, "
            f"{world})"
        )
    if shards.world != world:
        raise InputError(
            f"shards are of {shards.world} ranks, the group has {world}; make shards of {world}"
        )


def _joined(pieces: Iterable[Iterable[int]]) -> tuple[Piece, ...]:
    """Neighbouring pieces as one; empty ones left out."""
    found: list[Piece] = []
    for given in pieces:
        piece = Piece(*(_count(n, "a piece's border") for n in given))
        if piece.stop < piece.start:
            raise InputError(f"Shards: the piece {tuple(piece)} ends before it starts")
        if found and found[-1].stop == piece.start:
            found[-1] = Piece(found[-1].start, piece.stop)
        elif piece.length:
            found.append(piece)
    return tuple(found)


def _even(tokens: int, parts: int) -> list[int]:
    tokens, parts = _count(tokens, "tokens"), _count(parts, "world", least=1)
    return [tokens // parts + (n < tokens % parts) for n in range(parts)]


def _count(given: int, name: str, least: int = 0) -> int:
    try:
        number = index(given)
    except TypeError:
        number = -1
    if number < least or isinstance(given, bool):
        raise InputError(f"Shards: {name} is {given!r}; give a whole number ≥ {least}")
    return number
