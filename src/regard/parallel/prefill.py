"""Keys of the ranks before, for a causal model whose prompt is cut into one piece per rank.

A causal token sees only what stands before it. So a rank with tokens a … b − 1 needs the keys and
values of tokens 0 … a − 1, and that is what a key-value cache is: one that other ranks fill. A
model that can go on from a cache can read a prompt over many ranks, and whoever asks about its
attention sees whole rows.

Memory is one layer's keys and values of the whole prompt (few, where heads are grouped). The ring
keeps less, but no rank of it ever has a whole row to ask about.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.parallel.failure import named
from regard.parallel.group import Peers
from regard.parallel.shards import Piece, Shards
from regard.parallel.travel import posted

__all__ = ["Before", "balanced"]


class Before:
    """What the ranks before this one hold, fetched layer by layer: a collective."""

    def __init__(self, shards: Shards, group: Any = None) -> None:
        self.peers, self.shards = Peers.of(group), shards
        if shards.world != self.peers.world:
            raise InputError(
                f"shards are of {shards.world} ranks, the group has {self.peers.world}; make "
                f"shards of {self.peers.world}"
            )
        if any(len(pieces) > 1 for pieces in shards.pieces):
            raise InputError(
                "a prompt is read in one piece per rank; give Shards.contiguous or Shards.even"
            )

    @property
    def piece(self) -> Piece:
        """This rank's tokens."""
        return self._piece(self.peers.rank)

    def _piece(self, rank: int) -> Piece:
        mine = self.shards.pieces[rank]
        return mine[0] if mine else Piece(self.shards.tokens, self.shards.tokens)

    def joined(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """(…, n, D) of this rank's tokens → (…, b, D) of tokens 0 … b − 1 each. All ranks ask for
        the same tensors in the same order."""
        for tensor in tensors:
            if tensor.shape[-2] != self.piece.length:
                raise ShapeError(
                    f"{tuple(tensor.shape)} has {tensor.shape[-2]} tokens, the piece of rank "
                    f"{self.peers.rank} has {self.piece.length}"
                )
        given = [tensor.contiguous() for tensor in tensors]
        taken = [(rank, self._rooms(given, rank)) for rank in range(self.peers.rank)]
        self._exchange(given, taken)
        parts = [rooms for _, rooms in taken]
        return [torch.cat([*before, own], -2) for *before, own in zip(*parts, given, strict=True)]

    def _rooms(self, like: Sequence[Tensor], rank: int) -> list[Tensor]:
        tokens = self._piece(rank).length
        return [t.new_empty((*t.shape[:-2], tokens, t.shape[-1])) for t in like]

    def _exchange(self, given: Sequence[Tensor], taken: Sequence[tuple[int, list[Tensor]]]) -> None:
        """Give to every later rank, take from every earlier one."""
        peers = self.peers
        later = [(rank, given) for rank in range(peers.rank + 1, peers.world)]
        ops = [
            dist.P2POp(kind, tensor, group=peers.group, tag=n, group_peer=other)
            for kind, sides in ((dist.irecv, taken), (dist.isend, later))
            for other, tensors in sides
            for n, tensor in enumerate(tensors)
            if tensor.numel()
        ]
        for work, other in posted(peers, ops, "reading the prompt"):
            with named(peers, other, "reading the prompt"):
                work.wait()


def balanced(tokens: int, world: int, linear: float, quadratic: float, align: int = 1) -> Shards:
    """One piece per rank such that all have the same work: a token at position x costs
    linear + quadratic·x. Borders are multiples of `align`."""
    total = linear * tokens + quadratic * tokens**2 / 2
    borders = [0]
    for rank in range(1, world):
        share = total * rank / world
        root = sqrt(linear**2 + 2 * quadratic * share)
        at = (root - linear) / quadratic if quadratic else share / linear
        borders.append(min(max(round(at / align) * align, borders[-1]), tokens))
    borders.append(tokens)
    return Shards.contiguous(b - a for a, b in pairwise(borders))
