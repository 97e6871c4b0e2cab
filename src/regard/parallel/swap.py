"""Tokens for heads and back: one all-to-all each way, both with gradients.

    to_heads     (…, H, n, D) of this rank's tokens → (…, h, tokens, D) of this rank's heads
    to_tokens    the other way round, for whatever has heads and tokens
    to_everyone  (…, h, …) of this rank's heads → (…, H, …) on every rank

Everything that goes at once goes in one message per pair of ranks, as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.errors import GradientError
from regard.parallel.failure import named
from regard.parallel.group import Peers
from regard.parallel.message import pack, size_of, unpack
from regard.parallel.shards import Shards

__all__ = ["Trade", "to_everyone", "to_heads", "to_tokens"]


@dataclass(frozen=True)
class Trade:
    """Who has which tokens, and which heads later."""

    peers: Peers
    shards: Shards
    query: tuple[range, ...]  # query heads of every rank; no head twice
    key: tuple[range, ...]  # key heads of every rank; several may need the same

    @property
    def heads(self) -> int:
        """How many query heads there are."""
        return sum(map(len, self.query))

    @property
    def spreads(self) -> tuple[tuple[range, ...], ...]:
        """The heads of query, key and value."""
        return self.query, self.key, self.key

    def tokens(self, rank: int) -> int:
        """How many tokens a rank has."""
        return self.shards.lengths[rank]


def to_heads(
    trade: Trade, query: Tensor, key: Tensor, value: Tensor, arrays: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Query, key and value of this rank's heads over all tokens; then the arrays as they are,
    whose gradients become sums over all ranks."""
    found: tuple[Tensor, ...] = _ToHeads.apply(  # type: ignore[no-untyped-call]
        trade, query, key, value, *arrays
    )
    return found


def to_tokens(trade: Trade, axes: Sequence[int], *tensors: Tensor) -> tuple[Tensor, ...]:
    """Each with all tokens of this rank's query heads → with all heads of its tokens. `axes` says
    where the tokens are, counted from the end; heads stand right before."""
    found: tuple[Tensor, ...] = _ToTokens.apply(  # type: ignore[no-untyped-call]
        trade, tuple(axes), *tensors
    )
    return found


def to_everyone(trade: Trade, axis: int, value: Tensor, what: str) -> Tensor:
    """(…, h along `axis`, …) of this rank's query heads → all heads, on every rank."""
    found: Tensor = _ToEveryone.apply(trade, axis, value, what)  # type: ignore[no-untyped-call]
    return found


class _ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, trade: Trade, query: Tensor, key: Tensor, value: Tensor, *arrays: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.trade, ctx.heads = trade, [t.shape[-3] for t in (query, key, value)]
        found = _gather_tokens(trade, [query, key, value], (-2, -2, -2), trade.spreads)
        return *found, *(array.view_as(array) for array in arrays)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """A head that several ranks needed gets the sum of what they say."""
        trade: Trade = ctx.trade
        found = _scatter_tokens(trade, grads[:3], (-2, -2, -2), trade.spreads, ctx.heads)
        return None, *found, *(_summed(trade.peers, grad) for grad in grads[3:])


class _ToTokens(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, trade: Trade, axes: tuple[int, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.trade, ctx.axes = trade, axes
        heads, spreads = [trade.heads] * len(axes), [trade.query] * len(axes)
        found = _scatter_tokens(trade, tensors, axes, spreads, heads)
        ctx.mark_non_differentiable(*(t for t in found if not t.is_floating_point()))
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        trade: Trade = ctx.trade
        return None, None, *_gather_tokens(trade, grads, ctx.axes, [trade.query] * len(grads))


class _ToEveryone(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, trade: Trade, axis: int, value: Tensor, what: str) -> Tensor:
        ctx.what = what
        shapes = [[_resized(value, {axis: len(trade.query[r])})] for r in range(trade.peers.world)]
        found = _exchange(trade.peers, [[value]] * trade.peers.world, shapes)
        return torch.cat([parts[0] for parts in found], axis)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        raise GradientError(
            f"{ctx.what} has no gradient over ranks; output, lse, entropy, top weights and "
            "received have one. Detach it, or use regard.attend on one rank"
        )


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def _gather_tokens(
    trade: Trade,
    tensors: Sequence[Tensor],
    axes: Sequence[int],
    spreads: Sequence[tuple[range, ...]],
) -> list[Tensor]:
    """All heads of this rank's tokens → all tokens of this rank's heads."""
    rank, everybody = trade.peers.rank, range(trade.peers.world)
    each = list(zip(tensors, axes, spreads, strict=True))
    given = [[_some(t, at - 1, heads[r]) for t, at, heads in each] for r in everybody]
    shapes = [
        [_resized(t, {at - 1: len(heads[rank]), at: trade.tokens(r)}) for t, at, heads in each]
        for r in everybody
    ]
    found = _exchange(trade.peers, given, shapes)
    parts = zip(zip(*found, strict=True), axes, strict=True)
    return [trade.shards.join(list(part), at) for part, at in parts]


def _scatter_tokens(
    trade: Trade,
    tensors: Sequence[Tensor],
    axes: Sequence[int],
    spreads: Sequence[tuple[range, ...]],
    counts: Sequence[int],
) -> list[Tensor]:
    """All tokens of this rank's heads → all heads of this rank's tokens; where several ranks have
    the same head, the sum."""
    mine, everybody = trade.tokens(trade.peers.rank), range(trade.peers.world)
    each = list(zip(tensors, axes, spreads, strict=True))
    given = [[trade.shards.take(t, r, at) for t, at, _ in each] for r in everybody]
    shapes = [
        [_resized(t, {at - 1: len(heads[r]), at: mine}) for t, at, heads in each] for r in everybody
    ]
    found = _exchange(trade.peers, given, shapes)
    made = []
    for n, (tensor, at, heads) in enumerate(each):
        whole = tensor.new_zeros(_resized(tensor, {at - 1: counts[n], at: mine}))
        for r in everybody:
            _some(whole, at - 1, heads[r]).add_(found[r][n])
        made.append(whole)
    return made


def _exchange(
    peers: Peers, given: Sequence[Sequence[Tensor]], shapes: Sequence[Sequence[Sequence[int]]]
) -> list[list[Tensor]]:
    """given[r] goes to rank r; what comes from rank r has shapes[r], in the dtypes of what is
    given."""
    kinds = [tensor.dtype for tensor in given[0]]
    out = [pack(parts) for parts in given]
    sizes = [size_of(kinds, each) for each in shapes]
    if peers.world == 1:
        taken = out[0]
    else:
        taken = out[0].new_empty(sum(sizes))
        with named(peers, None, "trading tokens for heads"):
            dist.all_to_all_single(
                taken, torch.cat(out), sizes, [len(part) for part in out], group=peers.group
            )
    starts = accumulate(sizes, initial=0)
    return [unpack(taken, kinds, each, start) for start, each in zip(starts, shapes, strict=False)]


def _summed(peers: Peers, grad: Tensor) -> Tensor:
    total = grad.contiguous().clone()
    if peers.world > 1:
        with named(peers, None, "adding up gradients"):
            dist.all_reduce(total, group=peers.group)
    return total


def _some(tensor: Tensor, axis: int, span: range) -> Tensor:
    return tensor.narrow(axis, span.start, len(span))


def _resized(tensor: Tensor, sizes: dict[int, int]) -> list[int]:
    found = list(tensor.shape)
    for axis, size in sizes.items():
        found[axis] = size
    return found
