"""Keys of earlier ranks, for a causal model whose prompt is split into one piece per rank.

A causal token sees only earlier tokens. So a rank with tokens a … b − 1 needs the keys and values
of tokens 0 … a − 1, which is what a key-value cache holds: here other ranks fill it. A model that
can continue from a cache can read a prompt over many ranks, and its attention has whole rows.

Memory is one layer's keys and values of the whole prompt (few, where heads are grouped). The ring
keeps less, but none of its ranks ever has a whole row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.parallel.shards import Piece, Shards, check_world
from regard.parallel.transport import Peers, post, resized


class Before:
    """The tensors of earlier ranks, fetched layer by layer: a collective."""

    def __init__(self, shards: Shards, group: Any = None) -> None:
        self.peers, self.shards = Peers.of(group), shards
        check_world(shards, self.peers.world)
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
        sent = [tensor.contiguous() for tensor in tensors]
        rank, world = self.peers.rank, self.peers.world
        earlier = [
            (r, [t.new_empty(resized(t, {-2: self._piece(r).length})) for t in sent])
            for r in range(rank)
        ]
        later = [(r, sent) for r in range(rank + 1, world)]
        post(self.peers, earlier, later, "reading the prompt").wait()
        parts = [received for _, received in earlier]
        return [torch.cat(each, -2) for each in zip(*parts, sent, strict=True)]


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
