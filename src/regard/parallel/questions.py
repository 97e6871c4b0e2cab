"""The questions an attention over ranks answers, whatever way it was computed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.parallel.agree import agree
from regard.parallel.opening import Opened
from regard.parallel.shards import Shards
from regard.summary import Asking, Summary, as_summaries

__all__ = ["Questions"]


class Questions(Asking):
    """Statistics of rows are about this rank's queries, keys by their number in the whole sequence.
    `received` is about this rank's keys, over the queries of all ranks. `pooled` and `Offsets` are
    about the whole matrix and the same on every rank.
    """

    def __init__(self, opened: Opened) -> None:
        self._peers, self._shards, self._whole = opened.peers, opened.shards, opened.whole
        self._check = opened.check

    @property
    @abstractmethod
    def output(self) -> Tensor:
        """(…, Hq, n, Dv): this rank's rows of the output."""

    @property
    @abstractmethod
    def lse(self) -> Tensor:
        """(…, Hq, n): over the keys of all ranks; −∞ where a row sees no key."""

    @abstractmethod
    def _knows(self, summary: Summary) -> bool:
        """Whether nobody need be asked."""

    @abstractmethod
    def _fill(self, summaries: Sequence[Summary]) -> None:
        """Ask the other ranks for whatever is not known yet."""

    @abstractmethod
    def _answer(self, summary: Summary) -> Any:
        """What is known, with its gradient."""

    @property
    def shards(self) -> Shards:
        """Which tokens each rank holds."""
        return self._shards

    @property
    def rank(self) -> int:
        """This rank's number in the group."""
        return self._peers.rank

    def summarize(self, *summaries: Summary) -> dict[Summary, Any]:
        """Several summaries in as few trips as possible, keyed by the values asked for. What is
        not known yet must be asked for by every rank at once; ranks that ask different questions
        all get an error."""
        wrong = self._wrong(summaries)
        if not all(isinstance(s, Summary) and self._knows(s) for s in summaries):
            self._compare(f"answer {summaries!r}", wrong)
        if wrong is not None:
            raise wrong
        self._fill(summaries)
        return {summary: self._answer(summary) for summary in summaries}

    def _wrong(self, summaries: tuple[Summary, ...]) -> RegardError | None:
        """Why these cannot be answered on this rank."""
        try:
            self._fresh()
            for summary in as_summaries(summaries):
                summary.check(self._whole.shape)
        except RegardError as error:
            return error
        return None

    def _fresh(self) -> None:
        """Raise StaleError where the tensors are no longer what they were."""

    def _compare(self, doing: str, wrong: RegardError | None) -> None:
        """Ranks that are about to do different things, or cannot, all get an error."""
        if self._check:
            agree(self._peers, {"what to do": doing}, self.lse.device, wrong)

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, Hq, n, tokens): this rank's rows of the matrix that is never built."""
        return (*self.lse.shape, self.shards.tokens)

    @property
    def positions(self) -> Tensor:
        """(n,): where this rank's queries stand in the whole sequence."""
        return self.shards.positions(self.rank).to(self.lse.device)

    def sink_mass(self) -> Tensor:
        """(…, Hq, n): the share of each row that the sink took; 0 without a sink."""
        sink = self._sink()
        if sink is None:
            return torch.zeros_like(self.lse)
        return torch.exp(sink.to(self.lse.dtype)[:, None] - self.lse)
