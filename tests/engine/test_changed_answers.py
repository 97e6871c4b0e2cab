"""Answers are handed out without a copy: what becomes of them where callers change or copy them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

import regard
from engine.test_lifetime import IMPLEMENTATIONS, tensors
from regard.errors import StaleError

CHANGED = {
    "entropy": lambda a: a.entropy(),
    "received": lambda a: a.received(),
    "top weights": lambda a: a.top(2).weights,
    "part of the top": lambda a: a.peak().weights,
    "pooled": lambda a: a.pooled(2),
}


@IMPLEMENTATIONS
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_answer_is_no_source_of_others(name: str, implementation: str) -> None:
    """It was a copy, or whoever asks again is told."""
    a = regard.attend(*tensors(), implementation=implementation)
    a.top(3)
    answer = CHANGED[name](a)
    right = answer.clone()
    answer.mul_(2)
    try:
        assert torch.equal(CHANGED[name](a), right)
    except StaleError as error:
        assert "an answer of this attention was changed in place" in str(error)


def test_answers_asked_with_the_call_are_watched_too() -> None:
    a = regard.attend(*tensors(), summaries=(regard.Entropy(),), implementation="cpu")
    a.entropy().zero_()
    with pytest.raises(StaleError, match="change a copy"):
        a.max_score()


@IMPLEMENTATIONS
def test_a_clone_shares_nothing(implementation: str) -> None:
    a = regard.attend(*tensors(), implementation=implementation)
    asked = [a.entropy().clone(), a.received().clone(), a.output.clone(), a.lse.clone()]
    b = a.clone()
    for tensor in (b.entropy(), b.received(), b.output, b.lse):
        tensor.zero_()
    for mine, before in zip((a.entropy(), a.received(), a.output, a.lse), asked, strict=True):
        assert torch.equal(mine, before)


@IMPLEMENTATIONS
@pytest.mark.parametrize("how", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_copy_answers_as_the_original(how: Any, implementation: str) -> None:
    a = regard.attend(*tensors(), mask=regard.Causal(), implementation=implementation)
    a.entropy()
    b = how(a)
    assert torch.equal(b.entropy(), a.entropy()) and torch.equal(b.rows(3), a.rows(3))
    b._call.query.mul_(2)
    with pytest.raises(StaleError):
        b.received()
    a.received()


def test_it_is_walked_as_a_tensor_is() -> None:
    a = regard.attend(*(torch.randn(3, 2, 5, 4) for _ in range(3)))
    assert torch.equal(torch.stack(list(a)), a.dense())
    flat = regard.attend(*(torch.randn(5, 4) for _ in range(3)))
    assert [row.shape for row in flat] == [(5,)] * 5
