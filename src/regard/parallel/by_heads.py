"""ulysses(): ranks trade their tokens for heads, attend to the whole sequence, and trade back.

One all-to-all each way in place of a ring. Every rank sees all tokens of its heads, so each
question of `regard.attend` has its answer, with its gradient, by the same kernels; what it costs
is that no more ranks than heads have work, and that one rank holds a head's whole sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.engine.api import attend
from regard.engine.attention import Attention
from regard.engine.observers import unheard
from regard.engine.torch_state import whole_sequence
from regard.mask import Mask
from regard.parallel.opening import Opened, open_problem
from regard.parallel.questions import Questions
from regard.parallel.shards import Shards
from regard.parallel.spread import spread
from regard.parallel.swap import Trade, to_everyone, to_heads, to_tokens
from regard.score import Bias
from regard.summary import Received, Summary, TopKeys

__all__ = ["HeadwiseAttention", "ulysses"]


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

    Heads need not divide by ranks: they are spread as evenly as they go, and with more ranks than
    heads some ranks only send and receive. Fewer key heads than ranks are sent to every rank that
    has query heads of theirs. Gradients of a bias and of the sink are sums over all ranks: do not
    add them up again.
    """
    tensors, score = (query, key, value), (scale, softcap, bias, sink)
    opened = open_problem(
        "ulysses", tensors, shards, group, mask, score, summaries, implementation, check
    )
    return HeadwiseAttention(opened)


class HeadwiseAttention(Questions):
    """Attention of this rank's queries over the keys of all ranks, computed head by head.

    What was asked for beforehand (`summaries=`) is answered at once. Any other question is a
    collective, and so is every backward: **every rank must ask it, in the same order**. What was
    asked once is known. Gradients: as of `regard.Attention`, but for pooled maps and diagonals.
    """

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        query, key, value = opened.tensors
        heads = spread(query.shape[-3], key.shape[-3], opened.peers.world)
        self._trade = Trade(opened.peers, opened.shards, *zip(*heads, strict=True))
        self._known: dict[Summary, Any] = {}
        arrays = list(self._whole.score.arrays())
        query, key, value, *arrays = to_heads(self._trade, query, key, value, arrays)
        shared = iter(arrays)
        self._score = self._whole.score.map(lambda _: next(shared))
        self._heads = self._attend(query, key, value, opened.summaries)
        self._output, self._lse = to_tokens(
            self._trade, (-2, -1), self._heads.output, self._heads.lse
        )
        self._fill(opened.summaries)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, summaries: tuple[Summary, ...]
    ) -> Attention:
        """This rank's heads over the whole sequence."""
        whole, mine = self._whole, self._trade.query[self._trade.peers.rank]
        some = (whole.shape.extent, tuple(map(range, whole.shape.batch)), mine)
        score = self._score.cut(*some)
        with whole_sequence(), unheard():
            return attend(
                query, key, value, mask=None if whole.mask is None else whole.mask.cut(*some),
                scale=score.scale, bias=score.bias, softcap=score.softcap, sink=score.sink,
                summaries=tuple(map(_of_heads, summaries)),
                # a rank without heads has nothing to compute; the definition can say so
                implementation=whole.implementation if mine else "dense",
            )  # fmt: skip

    @property
    def output(self) -> Tensor:
        """(…, Hq, n, Dv): this rank's rows of the output."""
        return self._output

    @property
    def lse(self) -> Tensor:
        """(…, Hq, n): over the keys of all ranks; −∞ where a row sees no key."""
        return self._lse

    def _knows(self, summary: Summary) -> bool:
        return summary in self._known

    def _fill(self, summaries: Sequence[Summary]) -> None:
        missing = [s for s in dict.fromkeys(summaries) if s not in self._known]
        here = self._heads.summarize(*map(_of_heads, missing)) if missing else {}
        for summary in missing:
            self._known[summary] = self._brought(summary, here[_of_heads(summary)])

    def _answer(self, summary: Summary) -> Any:
        return self._known[summary]

    def _brought(self, summary: Summary, value: Any) -> Any:
        """From this rank's heads to whom it belongs."""
        if isinstance(value, TopKeys):
            at = len(self._whole.shape.batch) + 1 - value.keys.ndim
            return TopKeys(*to_tokens(self._trade, (at, at), *value))
        if summary.about == "matrix":
            heads = len(self._whole.shape.batch) - value.ndim
            return to_everyone(self._trade, heads, value, type(summary).__name__)
        (found,) = to_tokens(self._trade, (-1,), value)
        if isinstance(summary, Received) and summary.groups is not None:
            # divided already; all heads are together again only here
            only = Received(groups=summary.groups)
            return only.finish(found, torch.ones_like(found), self._whole.shape)
        return found

    def _sink(self) -> Tensor | None:
        found: Tensor | None = self._score.sink
        return found

    def __repr__(self) -> str:
        mine = self._trade.query[self.rank]
        return (
            f"HeadwiseAttention(shape={self.shape}, rank {self.rank} of {self._trade.peers.world}, "
            f"heads {mine.start}–{mine.stop - 1}, mask={self._whole.mask!r})"
        )


def _of_heads(summary: Summary) -> Summary:
    """What a rank asks its own heads: sums over groups have to wait for the other heads."""
    return summary.source() if summary.about == "keys" else summary
