"""Axes of no length: batch, heads, queries, keys, values. The tiles answer what `dense` does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.engine.backends.tiled.tile import times

QUESTIONS = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse,
    "entropy": lambda a: a.entropy(),
    "normalized entropy": lambda a: a.entropy(normalized=True),
    "max score": lambda a: a.max_score(),
    "max logit": lambda a: a.max_logit(),
    "peak": lambda a: a.peak(),
    "top": lambda a: a.top(3),
    "received": lambda a: a.received(),
    "received of groups": lambda a: a.received(per="visible", groups="sum"),
    "pooled": lambda a: a.pooled(2),
    "pooled maxima": lambda a: a.pooled(2, how="max"),
    "distance": lambda a: a.distance(),
    "concentration": lambda a: a.concentration(),
    "rows": lambda a: a.rows(torch.arange(a.shape[-2])),
    "cells": lambda a: a[..., :, :],
    "scores": lambda a: a.scores[..., :, :],
    "offsets": lambda a: a.summarize(regard.Offsets()),
    "product": lambda a: a @ torch.ones(*a.shape[:-2], a.shape[-1], 2),
    "transposed": lambda a: a.T @ torch.ones(*a.shape[:-1], 2),
}
OPTIONS = {
    "plain": lambda h, n, s: {},
    "causal": lambda h, n, s: {"mask": regard.Causal()},
    "window": lambda h, n, s: {"mask": regard.Window(1), "softcap": 2.0},
    "sink": lambda h, n, s: {"sink": torch.linspace(-1, 1, h)},
    "bias": lambda h, n, s: {"bias": torch.linspace(-1, 1, h * n * s).reshape(h, n, s)},
    "dropout": lambda h, n, s: {"dropout": 1.0},
}


def few(count: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, count])


@st.composite
def problems(draw: Any) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    batch, queries, keys, value_dim = (draw(few(n)) for n in (2, 3, 5, 2))
    heads, key_heads = draw(st.sampled_from([(0, 0), (4, 2), (4, 4)]))
    dice = torch.Generator().manual_seed(7)
    query = torch.randn(batch, heads, queries, 4, generator=dice)
    key = torch.randn(batch, key_heads, keys, 4, generator=dice)
    value = torch.randn(batch, key_heads, keys, value_dim, generator=dice)
    made = OPTIONS[draw(st.sampled_from(sorted(OPTIONS)))]
    return (query, key, value), made(heads, queries, keys)


def tensors(answer: Any) -> list[Tensor]:
    """An answer's tensors, whatever holds them."""
    if isinstance(answer, dict):
        answer = tuple(answer.values())
    return [answer] if isinstance(answer, Tensor) else list(answer)


@given(problems(), st.sampled_from(sorted(QUESTIONS)))
@settings(max_examples=400, deadline=None)
def test_every_question_has_the_definitions_answer(
    problem: tuple[tuple[Tensor, ...], dict[str, Any]], question: str
) -> None:
    (query, key, value), options = problem
    mine, wanted = (
        tensors(QUESTIONS[question](regard.attend(query, key, value, implementation=i, **options)))
        for i in ("tiled", "dense")
    )
    for found, true in zip(mine, wanted, strict=True):
        assert found.shape == true.shape and found.dtype == true.dtype
        torch.testing.assert_close(found, true, rtol=1e-5, atol=1e-5, equal_nan=True)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_every_gradient_is_the_definitions(
    problem: tuple[tuple[Tensor, ...], dict[str, Any]],
) -> None:
    inputs, options = problem

    def gradients(implementation: str) -> list[Tensor | None]:
        leaves = [t.clone().requires_grad_() for t in inputs]
        a = regard.attend(*leaves, implementation=implementation, **options)
        (a.output.square().sum() + a.entropy().sum() + a.received().sum()).backward()
        return [leaf.grad for leaf in leaves]

    for found, true in zip(gradients("tiled"), gradients("dense"), strict=True):
        torch.testing.assert_close(found, true, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("heads", [(0, 0), (0, 2)])
def test_no_heads_at_all_have_no_products(heads: tuple[int, int]) -> None:
    ours, keys = heads
    assert times(torch.ones(2, ours, 3, 4), torch.ones(2, keys, 4, 5)).shape == (2, 0, 3, 5)
