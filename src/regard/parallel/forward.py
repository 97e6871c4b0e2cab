"""The first ring: every rank's keys and values come past, and what each brings is merged.

Without values it is the ring of statistics that were not asked for in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from regard.mask import Verdict
from regard.parallel.group import Peers
from regard.parallel.shards import Piece, Shards
from regard.parallel.travel import around
from regard.parallel.whole import Whole
from regard.state import Partial, TopScores, merge
from regard.summary import Summary

__all__ = ["first_ring"]


def first_ring(
    peers: Peers,
    shards: Shards,
    whole: Whole,
    tensors: tuple[Tensor, Tensor, Tensor],
    summaries: Sequence[Summary],
) -> Partial:
    """Output, lse and statistics of this rank's queries over the keys of all ranks."""
    query, key, value = (tensor.detach() for tensor in tensors)
    mine = shards.local(peers.rank)
    found: list[Partial | None] = [None] * len(mine)
    with torch.no_grad(), closing(around(peers, [key, value], shards.lengths)) as tour:
        for owner, (k, v) in tour:
            for n, (rows, at) in enumerate(mine):
                for cols, there in shards.local(owner):
                    if whole.verdict(rows, cols) is Verdict.NONE:
                        continue
                    held = query[..., at, :], k[..., there, :], v[..., there, :]
                    part = whole.partial(*held, rows, cols, summaries)
                    before = found[n]
                    found[n] = part if before is None else merge(before, part)
        # a rank without tokens still has an answer, of no rows
        places = mine or [(Piece(0, 0), slice(0, 0))]
        parts = found or [None]
        return _side_by_side(
            [
                whole.unseen(query[..., at, :], key, value, rows, summaries) if p is None else p
                for p, (rows, at) in zip(parts, places, strict=True)
            ]
        )


def _side_by_side(parts: list[Partial]) -> Partial:
    """Partials of different queries as one."""
    if len(parts) == 1:
        return parts[0]
    return Partial(
        torch.cat([part.out for part in parts], -2),
        torch.cat([part.lse for part in parts], -1),
        {s: _joined([part.summaries[s] for part in parts]) for s in parts[0].summaries},
        torch.cat([_rest(part) for part in parts], -1),
    )


def _rest(part: Partial) -> Tensor:
    return torch.zeros_like(part.lse) if part.rest is None else part.rest


def _joined(values: list[Any]) -> Any:
    if isinstance(values[0], TopScores):
        return TopScores(*(torch.cat(list(side), -2) for side in zip(*values, strict=True)))
    return torch.cat(values, -1)
