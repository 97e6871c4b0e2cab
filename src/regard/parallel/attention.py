"""What a ring leaves on every rank: answers about its own queries, asked like `Attention`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.engine.call import RowState
from regard.errors import StaleError
from regard.parallel.backward import Joint, Refusal
from regard.parallel.columns import second_ring
from regard.parallel.forward import first_ring
from regard.parallel.opening import Opened
from regard.parallel.questions import Questions
from regard.state import Finished
from regard.summary import Entropy, Summary, TopKeys, TopScored
from regard.summary.base import fewest

__all__ = ["RingAttention"]


class RingAttention(Questions):
    """Attention of this rank's queries over the keys of all ranks.

    What the first ring measured (`summaries=`) is answered at once. Any other question sends the
    keys round once more, so it is a collective: **every rank must ask it, in the same order**.
    What was asked once is known.

    output, lse and entropy have gradients; their backward is a ring too, so every rank must run
    it. Asking for a gradient of anything else raises GradientError.
    """

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        tensors, summaries, whole = opened.tensors, opened.summaries, opened.whole
        self._ring = opened.peers, opened.shards, whole
        self._query, self._key = tensors[:2]
        self._arrays = list(whole.score.arrays())
        self._versions = self._counted()
        self._known: dict[Summary, Any] = {}
        self._graph = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, *self._arrays)
        )
        found = self._sweep(tensors, summaries)
        output = found.output.to(self._query.dtype)
        rest = torch.zeros_like(found.lse) if found.rest is None else found.rest
        self._state = RowState(found.lse, rest)
        self._output, self._lse, self._entropy = output, found.lse, None
        if self._graph:
            self._output, self._lse, self._entropy = self._joined(tensors, output)
        self._fill(summaries)

    # ── what the forward gave ────────────────────────────────────────────────────────────────

    @property
    def output(self) -> Tensor:
        """(…, Hq, n, Dv): this rank's rows of the output."""
        return self._output

    @property
    def lse(self) -> Tensor:
        """(…, Hq, n): over the keys of all ranks; −∞ where a row sees no key."""
        return self._lse

    def _sink(self) -> Tensor | None:
        sink: Tensor | None = self._whole.score.sink
        return sink

    def __repr__(self) -> str:
        peers, shards, whole = self._ring
        return (
            f"RingAttention(shape={self.shape}, rank {peers.rank} of {peers.world}, "
            f"pieces={[tuple(piece) for piece in shards.pieces[peers.rank]]}, mask={whole.mask!r})"
        )

    # ── rings ────────────────────────────────────────────────────────────────────────────────

    def _sweep(
        self, tensors: tuple[Tensor, Tensor, Tensor], summaries: Sequence[Summary]
    ) -> Finished:
        """A first ring, which brings whatever merges."""
        asked = _merging(summaries)
        sink = self._sink()
        part = first_ring(*self._ring, tensors, asked)
        found = part.finish(None if sink is None else sink.detach())
        self._known |= {summary: found[summary] for summary in asked}
        return found

    def _knows(self, summary: Summary) -> bool:
        return self._lookup(summary) is not None

    def _fill(self, summaries: Sequence[Summary]) -> None:
        """Whatever is not known yet, in one ring of each kind."""
        rows = [summary for summary in _merging(summaries) if self._lookup(summary) is None]
        if rows:
            self._sweep((self._query, self._key, self._key[..., :0]), rows)
        columns = [
            summary
            for summary in dict.fromkeys(summaries)
            if not summary.source().merges and summary not in self._known
        ]
        if columns:
            found = second_ring(self._ring, self._query, self._key, self._state, columns)
            self._known |= found

    def _joined(
        self, tensors: tuple[Tensor, Tensor, Tensor], output: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Output, lse and, where it is known, entropy with their gradients."""
        known = output, self._state, self._known.get(Entropy())
        given = (*known, *tensors, *self._arrays)
        found = Joint.apply(self._ring, *given)  # type: ignore[no-untyped-call]
        return found[0], found[1], found[2] if len(found) > 2 else None

    def _answer(self, summary: Summary) -> Any:
        value = self._lookup(summary)
        if not self._graph or summary.gradient == "constant":
            return value
        if summary.gradient == "entropy":
            if self._entropy is None:  # asked late: it gets a ring of gradients of its own
                nothing = self._query, self._key, self._key[..., :0]
                self._entropy = self._joined(nothing, self._query.detach()[..., :0])[2]
            return self._entropy
        if isinstance(value, TopKeys):
            return TopKeys(self._refusing(value.weights, type(summary).__name__), value.keys)
        return self._refusing(value, type(summary).__name__)

    def _refusing(self, value: Tensor, what: str) -> Any:
        tensors = (self._query, self._key, *self._arrays)
        return Refusal.apply(value, what, *tensors)  # type: ignore[no-untyped-call]

    def _lookup(self, summary: Summary) -> Any:
        """A known value, also where it is part of a larger one."""
        if summary in self._known:
            return self._known[summary]
        best = {m: v for m, v in self._known.items() if isinstance(v, TopKeys)}
        scored = {m: TopScored(*value, value.weights) for m, value in best.items()}
        return summary.answer(scored, self._whole.shape)

    def _counted(self) -> tuple[int, ...]:
        """How often each tensor that defines the matrix was written to."""
        mask = [] if self._whole.mask is None else self._whole.mask.arrays()
        watched = (self._query, self._key, *self._arrays, *mask)
        return tuple(-1 if tensor.is_inference() else tensor._version for tensor in watched)

    def _fresh(self) -> None:
        if self._versions != self._counted():
            raise StaleError(
                "query, key, mask or bias was changed in place after this ring, so its weights can "
                "no longer be recovered; ask before the change, or pass clones"
            )


def _merging(summaries: Sequence[Summary]) -> list[Summary]:
    """What a first ring has to bring for these: one top-k, the largest, serves all."""
    merging = [source for s in summaries if (source := s.source()).merges]
    return fewest([*merging, *(other for s in merging for other in s.merges_with)])
