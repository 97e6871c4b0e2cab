"""The questions an attention over ranks answers, whatever way it was computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.parallel.agree import agree
from regard.parallel.opening import Opened
from regard.parallel.shards import Shards
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Peak,
    Pooled,
    Received,
    Summary,
    Top,
    TopKeys,
    Visible,
    as_summaries,
    normalize,
)

__all__ = ["Questions"]


class Questions(ABC):
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
    def _sink(self) -> Tensor | None:
        """(Hq,), where there is one."""

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

    def _fresh(self) -> None:  # noqa: B027
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

    def entropy(self, normalized: bool = False) -> Tensor:
        """(…, Hq, n): in nats; normalized divides by log(visible keys), 0 where one is visible."""
        if not normalized:
            return self._ask(Entropy())
        found = self.summarize(Entropy(), Visible())
        return normalize(found[Entropy()], found[Visible()], self._sink() is not None)

    def max_score(self) -> Tensor:
        """(…, Hq, n): the largest scale·q·k over visible keys, before cap and bias."""
        return self._ask(MaxScore())

    def max_logit(self) -> Tensor:
        """(…, Hq, n): the largest final score over visible keys, the sink excluded."""
        return self._ask(MaxLogit())

    def top(self, k: int) -> TopKeys:
        """(…, Hq, n, k): .weights and .keys (numbers in the whole sequence) of the k heaviest."""
        return self._ask(Top(k))

    def peak(self) -> TopKeys:
        """(…, Hq, n): .weights and .keys of the heaviest key of each row."""
        return self._ask(Peak())

    def distance(self) -> Tensor:
        """(…, Hq, n): mean distance |i − j| under the weights, in tokens of the whole sequence."""
        return self._ask(Distance())

    def concentration(self) -> Tensor:
        """(…, Hq, n): Σ p²."""
        return self._ask(Concentration())

    def sink_mass(self) -> Tensor:
        """(…, Hq, n): the share of each row that the sink took; 0 without a sink."""
        sink = self._sink()
        if sink is None:
            return torch.zeros_like(self.lse)
        return torch.exp(sink.to(self.lse.dtype)[:, None] - self.lse)

    def received(
        self,
        queries: Any = None,
        per: Literal["sum", "visible"] = "sum",
        groups: Literal["sum", "mean"] | None = None,
    ) -> Tensor:
        """(…, Hq, n): the mass each of this rank's keys received from the queries of all ranks;
        `queries` are numbers of the whole sequence. See `regard.Received`."""
        return self._ask(Received(queries, per, groups))

    def pooled(self, cell: int | None = None, how: Literal["mean", "max"] = "mean") -> Tensor:
        """(…, Hq, ⌈tokens/cell⌉, ⌈tokens/cell⌉): the whole matrix at a glance, on every rank."""
        return self._ask(Pooled(cell, how))

    def _ask(self, summary: Summary) -> Any:
        return self.summarize(summary)[summary]
