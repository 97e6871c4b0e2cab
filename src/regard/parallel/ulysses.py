"""ulysses(): an all-to-all trades tokens for heads, another trades back.

Every rank sees all tokens of its heads, so each question of `regard.attend` has its answer, with
its gradient, by the same kernels. The price: no more ranks than heads have work, and one rank
holds a head's whole sequence.

    split_heads   which heads each rank computes
    to_heads      (…, H, n, D) of this rank's tokens → (…, h, tokens, D) of this rank's heads
    to_tokens     the inverse, for any tensor with heads and tokens
    to_all_ranks  (…, h, …) of this rank's heads → (…, H, …) on every rank
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.engine.api import attend
from regard.engine.attention import Attention
from regard.engine.call import map_parts, parts_of
from regard.engine.observers import unheard
from regard.engine.torch_state import whole_sequence
from regard.errors import GradientError
from regard.mask import Mask
from regard.parallel.problem import QKV, ParallelAttention, ShardedProblem, open_problem
from regard.parallel.shards import Shards
from regard.parallel.transport import Peers, all_reduce, all_to_all, resized
from regard.score import Bias
from regard.summary import Summary

_DOING = "trading tokens for heads"
_Heads = tuple[range, ...]  # of every rank


def ulysses(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    shards: Shards,
    group: Any = None,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    summaries: tuple[Summary, ...] = (),
    implementation: str | None = None,
    check: bool = True,
) -> HeadwiseAttention:
    """Attention over all ranks' tokens by trading tokens for heads (DeepSpeed's Ulysses).

    query (…, Hq, n, D), key (…, Hkv, n, D), value (…, Hkv, n, Dv): this rank's tokens, in the
    order of its pieces. A collective: every rank of the group calls it with the same rules.
    Arguments are those of `regard.parallel.ring`.

    Heads need not divide by ranks: they are split as evenly as possible, and with more ranks than
    heads some ranks only send and receive. Fewer key heads than ranks are sent to every rank that
    has query heads of theirs. Gradients of a bias and of the sink are sums over all ranks: do not
    add them up again.
    """
    tensors, score = (query, key, value), (scale, softcap, bias, sink)
    return HeadwiseAttention(
        *open_problem(
            "ulysses", tensors, shards, group, mask, score, summaries, implementation, check
        )
    )


class HeadwiseAttention(ParallelAttention):
    """Attention of this rank's queries over the keys of all ranks, computed head by head.

    What was asked for beforehand (`summaries=`) is answered at once. Any other question is a
    collective, and so is every backward: **every rank must ask it, in the same order**. What was
    asked once is known. Gradients: as of `regard.Attention`, but for pooled maps and diagonals.
    """

    def __init__(
        self, problem: ShardedProblem, tensors: QKV, summaries: tuple[Summary, ...]
    ) -> None:
        super().__init__(problem)
        query, key, value = tensors
        heads = split_heads(query.shape[-3], key.shape[-3], problem.peers.world)
        self._layout = Repartition(problem.peers, problem.shards, *zip(*heads, strict=True))
        arrays = list(problem.score.arrays())
        query, key, value, *arrays = to_heads(self._layout, query, key, value, arrays)
        shared = iter(arrays)
        self._score = problem.score.map(lambda _: next(shared))
        self._heads = self._attend(query, key, value, summaries)
        self._output, self._lse = to_tokens(
            self._layout, (-2, -1), self._heads.output, self._heads.lse
        )
        self._fill(summaries)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, summaries: tuple[Summary, ...]
    ) -> Attention:
        """This rank's heads over the whole sequence."""
        problem, mine = self._problem, self._layout.query[self.rank]
        some = (problem.shape.extent, tuple(map(range, problem.shape.batch)), mine)
        score = self._score.cut(*some)
        with whole_sequence(), unheard():
            return attend(
                query, key, value, mask=None if problem.mask is None else problem.mask.cut(*some),
                scale=score.scale, bias=score.bias, softcap=score.softcap, sink=score.sink,
                summaries=tuple(map(_of_heads, summaries)),
                # a rank without heads has nothing to compute; only the definition accepts that
                implementation=problem.implementation if mine else "dense",
            )  # fmt: skip

    def _fill(self, summaries: Sequence[Summary]) -> None:
        missing = [s for s in dict.fromkeys(summaries) if s not in self._known]
        values = self._heads.summarize(*map(_of_heads, missing)) if missing else {}
        for summary in missing:
            self._known[summary] = self._redistributed(summary, values[_of_heads(summary)])

    def _redistributed(self, summary: Summary, value: Any) -> Any:
        """From this rank's heads to the ranks whose tokens it is about."""
        batch, source = len(self._problem.shape.batch), summary.source()
        if summary.about == "matrix":
            return to_all_ranks(self._layout, batch - value.ndim, value, type(summary).__name__)
        parts = parts_of(value)
        axes = [batch + 1 - part.ndim for part in parts]
        moved = iter(to_tokens(self._layout, axes, *parts))
        mine = map_parts(value, lambda _: next(moved))
        if summary == _of_heads(summary):
            return mine
        # divided already; all heads are together again only here
        divided = source.packed([mine, torch.ones_like(mine)])
        return summary.answer({source: divided}, self._problem.shape)

    def _sink(self) -> Tensor | None:
        return self._score.sink

    def __repr__(self) -> str:
        mine = self._layout.query[self.rank]
        return (
            f"HeadwiseAttention(shape={self.shape}, rank {self.rank} of {self.shards.world}, "
            f"heads {mine.start}–{mine.stop - 1}, mask={self._problem.mask!r})"
        )


def _of_heads(summary: Summary) -> Summary:
    """What a rank asks its own heads: sums over groups have to wait for the other heads."""
    return summary.source() if summary.about == "keys" else summary


# ── heads ────────────────────────────────────────────────────────────────────────────────────


class HeadRange(NamedTuple):
    """What one rank computes: neighbouring query heads, and the key heads they attend to."""

    query: range
    key: range


def split_heads(query_heads: int, key_heads: int, world: int) -> tuple[HeadRange, ...]:
    """The heads of every rank.

        split_heads(8, 4, 2)   rank 0: query heads 0–3 on key heads 0–1   rank 1: 4–7 on 2–3
        split_heads(8, 2, 4)   ranks 0, 1: query heads 0–1, 2–3 on key head 0
                               ranks 2, 3: query heads 4–5, 6–7 on key head 1

    Key heads are split as evenly as possible. Where there are fewer of them than ranks, several
    ranks share one: it is sent to each of them, and each has some of its query heads. A rank may
    be left without any.
    """
    group = query_heads // key_heads if key_heads else 1
    if key_heads >= world:
        return tuple(
            HeadRange(range(key.start * group, key.stop * group), key)
            for key in _runs(range(key_heads), world)
        )
    heads = []
    for head, ranks in enumerate(_runs(range(world), key_heads)):
        for query in _runs(range(head * group, (head + 1) * group), len(ranks)):
            heads.append(HeadRange(query, range(head, head + 1) if query else range(0)))
    return tuple(heads) or tuple(HeadRange(range(0), range(0)) for _ in range(world))


def _runs(whole: range, parts: int) -> list[range]:
    """Consecutive parts of nearly equal length; the first are the longer ones."""
    if not parts:
        return []
    sizes = [len(whole) // parts + (n < len(whole) % parts) for n in range(parts)]
    return [whole[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


# ── tokens for heads ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Repartition:
    """The tokens of every rank before, and its heads after the all-to-all."""

    peers: Peers
    shards: Shards
    query: _Heads  # query heads; no head twice
    key: _Heads  # key heads; several ranks may need the same

    @property
    def heads(self) -> int:
        """How many query heads there are."""
        return sum(map(len, self.query))

    @property
    def qkv(self) -> tuple[_Heads, ...]:
        """The heads of query, key and value."""
        return self.query, self.key, self.key


def to_heads(
    layout: Repartition, query: Tensor, key: Tensor, value: Tensor, arrays: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Query, key and value of this rank's heads over all tokens; then the arrays as they are,
    whose gradients become sums over all ranks."""
    return _ToHeads.apply(  # type: ignore[no-untyped-call]
        layout, query, key, value, *arrays
    )


def to_tokens(layout: Repartition, axes: Sequence[int], *tensors: Tensor) -> tuple[Tensor, ...]:
    """All tokens of this rank's query heads → all heads of this rank's tokens. `axes` are the
    tokens' axes, counted from the end; heads stand right before."""
    return _ToTokens.apply(  # type: ignore[no-untyped-call]
        layout, tuple(axes), *tensors
    )


def to_all_ranks(layout: Repartition, axis: int, value: Tensor, what: str) -> Tensor:
    """(…, h along `axis`, …) of this rank's query heads → all heads, on every rank."""
    return _ToAllRanks.apply(layout, axis, value, what)  # type: ignore[no-untyped-call]


class _ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, layout: Repartition, query: Tensor, key: Tensor, value: Tensor, *arrays: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.layout, ctx.heads = layout, [t.shape[-3] for t in (query, key, value)]
        tensors = _gather_tokens(layout, [query, key, value], (-2, -2, -2), layout.qkv)
        return *tensors, *(array.view_as(array) for array in arrays)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """A head that several ranks needed gets the sum of their gradients."""
        layout: Repartition = ctx.layout
        tensors = _scatter_tokens(layout, grads[:3], (-2, -2, -2), layout.qkv, ctx.heads)
        copies = (grad.contiguous().clone() for grad in grads[3:])
        sums = (all_reduce(layout.peers, grad, "adding up gradients") for grad in copies)
        return None, *tensors, *sums


class _ToTokens(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, layout: Repartition, axes: tuple[int, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.layout, ctx.axes = layout, axes
        heads, counts = [layout.query] * len(axes), [layout.heads] * len(axes)
        parts = _scatter_tokens(layout, tensors, axes, heads, counts)
        ctx.mark_non_differentiable(*(t for t in parts if not t.is_floating_point()))
        return tuple(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        layout: Repartition = ctx.layout
        return None, None, *_gather_tokens(layout, grads, ctx.axes, [layout.query] * len(grads))


class _ToAllRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Repartition, axis: int, value: Tensor, what: str) -> Tensor:
        ctx.what = what
        shapes = [[resized(value, {axis: len(heads)})] for heads in layout.query]
        parts = all_to_all(layout.peers, [[value]] * layout.peers.world, shapes, _DOING)
        return torch.cat([part for (part,) in parts], axis)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        raise GradientError(
            f"{ctx.what} has no gradient over ranks; output, lse, entropy, top weights and "
            "received have one. Detach it, or use regard.attend on one rank"
        )


def _gather_tokens(
    layout: Repartition,
    tensors: Sequence[Tensor],
    axes: Sequence[int],
    heads: Sequence[_Heads],
) -> list[Tensor]:
    """All heads of this rank's tokens → all tokens of this rank's heads."""
    rank, lengths = layout.peers.rank, layout.shards.lengths
    each = list(zip(tensors, axes, heads, strict=True))
    sent = [
        [_narrow(t, at - 1, ranges[r]) for t, at, ranges in each] for r in range(layout.peers.world)
    ]
    shapes = [
        [resized(t, {at - 1: len(ranges[rank]), at: length}) for t, at, ranges in each]
        for length in lengths
    ]
    received = all_to_all(layout.peers, sent, shapes, _DOING)
    parts = zip(zip(*received, strict=True), axes, strict=True)
    return [layout.shards.join(list(part), at) for part, at in parts]


def _scatter_tokens(
    layout: Repartition,
    tensors: Sequence[Tensor],
    axes: Sequence[int],
    heads: Sequence[_Heads],
    counts: Sequence[int],
) -> list[Tensor]:
    """All tokens of this rank's heads → all heads of this rank's tokens; where several ranks have
    the same head, the sum."""
    shards, ranks = layout.shards, range(layout.peers.world)
    mine = shards.lengths[layout.peers.rank]
    each = list(zip(tensors, axes, heads, strict=True))
    sent = [[shards.take(t, r, at) for t, at, _ in each] for r in ranks]
    shapes = [
        [resized(t, {at - 1: len(ranges[r]), at: mine}) for t, at, ranges in each] for r in ranks
    ]
    received = all_to_all(layout.peers, sent, shapes, _DOING)
    totals = []
    for n, (tensor, at, ranges) in enumerate(each):
        total = tensor.new_zeros(resized(tensor, {at - 1: counts[n], at: mine}))
        for r in ranks:
            _narrow(total, at - 1, ranges[r]).add_(received[r][n])
        totals.append(total)
    return totals


def _narrow(tensor: Tensor, axis: int, span: range) -> Tensor:
    return tensor.narrow(axis, span.start, len(span))
