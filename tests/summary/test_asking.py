"""Every question is its summary, whoever is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.summary import Asking, Summary, Visible


class Told(Asking):
    """Answers with 1 and remembers what it was asked."""

    def __init__(self, sink: Tensor | None = None) -> None:
        self.asked: list[tuple[Summary, ...]] = []
        self.sink = sink

    def summarize(self, *summaries: Summary) -> dict[Summary, Any]:
        """Ones."""
        self.asked.append(summaries)
        return {summary: torch.ones(2) for summary in summaries}

    def _sink(self) -> Tensor | None:
        return self.sink


@pytest.mark.parametrize(
    ("ask", "summary"),
    [
        (lambda a: a.entropy(), regard.Entropy()),
        (lambda a: a.max_score(), regard.MaxScore()),
        (lambda a: a.max_logit(), regard.MaxLogit()),
        (lambda a: a.top(3), regard.Top(3)),
        (lambda a: a.peak(), regard.Peak()),
        (lambda a: a.distance(), regard.Distance()),
        (lambda a: a.concentration(), regard.Concentration()),
        (lambda a: a.received(5, "visible", "mean"), regard.Received(5, "visible", "mean")),
        (lambda a: a.pooled(16, "max"), regard.Pooled(16, "max")),
    ],
)
def test_a_question_is_its_summary(ask: Any, summary: Summary) -> None:
    told = Told()
    ask(told)
    assert told.asked == [(summary,)]


@pytest.mark.parametrize("sink", [None, torch.zeros(1)])
def test_normalised_entropy_needs_one_trip_and_knows_of_a_sink(sink: Tensor | None) -> None:
    told = Told(sink)
    found = told.entropy(normalized=True)
    assert told.asked == [(regard.Entropy(), Visible())]
    # one visible key leaves no choice, unless there is a sink beside it
    assert bool((found > 0).all()) is (sink is not None)


def test_an_attention_and_one_over_ranks_are_asked_alike() -> None:
    assert issubclass(regard.Attention, Asking)
    assert issubclass(regard.parallel.RingAttention, Asking)
    assert issubclass(regard.parallel.HeadwiseAttention, Asking)
