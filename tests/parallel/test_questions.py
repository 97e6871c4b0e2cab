"""Questions that are asked later: every rank the same, or an error on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import TOKENS, case_named, my_part, shards_of
from parallel.world import run
from regard.errors import RegardError
from regard.parallel import HeadwiseAttention, RingAttention
from regard.summary import Offsets

WAYS = ("ring", "ulysses")


def _attention(way: str, **options: Any) -> tuple[Any, list[torch.Tensor]]:
    inputs = case_named("causal").inputs(torch.float32)
    parts = my_part(inputs, shards_of("zigzag", TOKENS, dist.get_world_size()))
    options |= {"shards": shards_of("zigzag", TOKENS, dist.get_world_size())}
    return getattr(regard.parallel, way)(*parts, **options, **inputs.options), parts


def _said(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except RegardError as error:
        return f"{type(error).__name__}: {error}"
    return "answered"


def _in_another_order(way: str) -> list[str]:
    """What each question came to, and then one that all ranks ask alike."""
    a, _ = _attention(way)
    questions = [a.entropy, a.received, a.pooled]
    if dist.get_rank() == 1:
        questions.reverse()
    return [_said(ask) for ask in (*questions, a.peak)]


@pytest.mark.parametrize("way", WAYS)
def test_ranks_that_ask_in_another_order_all_get_an_error(way: str) -> None:
    for said in run(3, _in_another_order, way):
        for one in (said[0], said[2]):
            assert "the ranks disagree on what to do: rank 1 differs from rank 0" in one
        # in the middle of both orders stands the same, and ranks are in step again
        assert said[1] == said[3] == "answered"


def _with_other_words(way: str) -> str:
    a, _ = _attention(way)
    return _said(lambda: a.top(2 + dist.get_rank()))


@pytest.mark.parametrize("way", WAYS)
def test_ranks_that_ask_with_other_words_all_get_an_error(way: str) -> None:
    for rank, said in enumerate(run(2, _with_other_words, way)):
        assert "the ranks disagree on what to do: rank 1 differs from rank 0" in said
        assert f"rank {rank} has answer (Top(k={2 + rank})" in said


def _one_cannot(way: str) -> list[str]:
    a, _ = _attention(way)
    no_summary: Any = "entropy"
    asked = no_summary if dist.get_rank() == 1 else regard.Entropy()
    return [_said(lambda: a.summarize(asked)), _said(a.entropy)]


@pytest.mark.parametrize("way", WAYS)
def test_a_question_that_one_rank_cannot_take_ends_on_all(way: str) -> None:
    told = run(3, _one_cannot, way)
    assert "'entropy' is not a summary" in told[1][0]
    assert "rank 1 could not take what was given there" in told[0][0] == told[2][0]
    assert all(said[1] == "answered" for said in told)


def _one_is_stale() -> list[str]:
    a, (_, key, _) = _attention("ring", summaries=(regard.Entropy(),))
    if dist.get_rank() == 1:
        key.add_(1)
    # what is known travels no more, so each rank speaks for itself
    return [_said(a.received), _said(a.entropy)]


def test_keys_changed_on_one_rank_are_told_to_all() -> None:
    told = run(2, _one_is_stale)
    assert told[1][0].startswith("StaleError") and told[1][1].startswith("StaleError")
    assert "rank 1 could not take what was given there" in told[0][0]
    assert told[0][1] == "answered"


def _unchecked(way: str) -> list[torch.Tensor]:
    found = []
    for check in (True, False):
        a, _ = _attention(way, check=check)
        found += [a.entropy(), a.received(), a.summarize(Offsets())[Offsets()]]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_without_the_check_the_answers_are_the_same(way: str) -> None:
    for found in run(2, _unchecked, way):
        for checked, unchecked in zip(found[:3], found[3:], strict=True):
            assert torch.equal(checked, unchecked)


def _held(way: str) -> bool:
    """Values are not needed for questions: whoever asks later does not keep them."""
    a, (_, _, value) = _attention(way)
    assert isinstance(a, RingAttention | HeadwiseAttention)
    kept = [held for held in vars(a).values() if isinstance(held, torch.Tensor)]
    return any(held is value for held in kept)


@pytest.mark.parametrize("way", WAYS)
def test_values_are_let_go(way: str) -> None:
    assert run(2, _held, way) == [False, False]
