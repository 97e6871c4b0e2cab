"""The questions that every attention answers, each by its summary.

L queries and S keys are those the answering object speaks of: all of them for an `Attention`. For
one over several ranks L are this rank's queries and S this rank's keys, keys are called by their
number in the whole sequence, and `pooled` is of the whole matrix. For a recorded `Head` there is no
axis of heads, L are the recorded rows, and in `pooled` the others count as 0, like what is masked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from regard.summary.base import Summary, TopKeys
from regard.summary.columns import Received, Weighted
from regard.summary.maps import Pooled
from regard.summary.rows import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Visible,
    normalize,
)
from regard.summary.top import Peak, Top

if TYPE_CHECKING:
    from torch import Tensor


_Numbers = TypeVar("_Numbers")


class Questions(ABC, Generic[_Numbers]):
    """Whoever can summarize can answer these, in numpy's arrays or in tensors."""

    @abstractmethod
    def summarize(self, *summaries: Summary) -> dict[Summary, Any]:
        """The results of several summaries, by summary, in as few sweeps as possible."""

    @abstractmethod
    def _has_sink(self) -> Any:
        """Whether there is a sink, for all rows or for each."""

    def _per_query(self, given: Any) -> Any:
        """One number a query, as it was given."""
        return given

    def _ask(self, summary: Summary) -> Any:
        return self.summarize(summary)[summary]

    def entropy(self, normalized: bool = False) -> _Numbers:
        """(…, Hq, L): in nats; normalized divides by log(visible keys), 0 where one is visible."""
        if not normalized:
            return self._ask(Entropy())
        found = self.summarize(Entropy(), Visible())
        return normalize(found[Entropy()], found[Visible()], self._has_sink())

    def max_score(self) -> _Numbers:
        """(…, Hq, L): the largest scale·q·k over visible keys, before cap and bias."""
        return self._ask(MaxScore())

    def max_logit(self) -> _Numbers:
        """(…, Hq, L): the largest final score over visible keys, the sink excluded."""
        return self._ask(MaxLogit())

    def top(self, k: int) -> TopKeys:
        """(…, Hq, L, k): .weights and .keys of the k heaviest keys of each row."""
        return self._ask(Top(k))

    def peak(self) -> TopKeys:
        """(…, Hq, L): .weights and .keys of the heaviest key of each row."""
        return self._ask(Peak())

    def distance(self) -> _Numbers:
        """(…, Hq, L): mean distance |i − j| under the weights, in tokens."""
        return self._ask(Distance())

    def concentration(self) -> _Numbers:
        """(…, Hq, L): Σ p²; 1 over it is the number of keys effectively used."""
        return self._ask(Concentration())

    def received(
        self,
        queries: Any = None,
        per: Literal["sum", "visible"] = "sum",
        groups: Literal["sum", "mean", "max"] | None = None,
        *,
        how: Literal["sum", "mean", "max"] = "sum",
        weighted_by: Any = None,
    ) -> _Numbers:
        """(…, Hq, S): the mass each key received.

        queries      None for all rows; a slice, range or indices; a number n: the last n
        how          "sum"; "mean" over those of the queries that may see the key; or "max"
        per          "visible" is another spelling of how="mean"
        groups       None, or "sum"/"mean"/"max" over the query heads that share the key head
        weighted_by  (L,) or (…, Hq, L): each query's weights are multiplied by its number
        """
        plain = Received(queries, per, groups, how)
        if weighted_by is None:
            return self._ask(plain)
        return self._ask(Weighted(plain, self._per_query(weighted_by)))

    def pooled(self, cell: int | None = None, how: Literal["mean", "max"] = "mean") -> _Numbers:
        """(…, Hq, ⌈L/cell⌉, ⌈S/cell⌉): the matrix at a glance, at most 512 cells a side."""
        return self._ask(Pooled(cell, how))


class Asking(Questions["Tensor"]):
    """Those of a problem whose sink is one number a head."""

    @abstractmethod
    def _sink(self) -> Tensor | None:
        """(Hq,), where there is one."""

    def _has_sink(self) -> bool:
        return self._sink() is not None
