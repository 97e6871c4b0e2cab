"""Gradients through a ring: those of one rank's autograd through the definition."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import CASES, KINDS, case_named, ring_of, shards_of
from parallel.world import WORLDS, run

SOME = ["plain", "causal", "lengths", "everything", "one key head", "two tokens"]
QUESTIONS: dict[str, Callable[[Any], torch.Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: _finite(a.lse),
    "entropy": lambda a: a.entropy(),
    "all": lambda a: a.output.sum(-1) + a.entropy() + _finite(a.lse),
}


def _finite(scores: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(scores == -torch.inf, 0.0)


def _weights(found: torch.Tensor, asked: str, tokens: int, positions: torch.Tensor) -> torch.Tensor:
    """A different number for every place, the same on however many ranks."""
    axis = -2 if asked == "output" else -1  # where the tokens stand
    shape = list(found.shape)
    shape[axis] = tokens
    count = torch.tensor(shape).prod()
    whole = torch.linspace(0.5, 1.5, int(count), dtype=torch.float64).reshape(shape)
    return whole.index_select(axis, positions).to(found.dtype)


def _learning(options: dict[str, Any]) -> list[torch.Tensor]:
    """The arrays of the bias and the sink, as leaves in the options."""
    leaves = []
    bias = options.get("bias")
    if bias is not None:
        bias = regard.score.as_bias(bias).map(lambda t: t.detach().clone().requires_grad_())
        leaves += list(bias.arrays())
        options["bias"] = bias
    if "sink" in options:
        options["sink"] = options["sink"].detach().clone().requires_grad_()
        leaves.append(options["sink"])
    return leaves


def _gradients(name: str, dtype: torch.dtype, kind: str, asked: str) -> list[torch.Tensor]:
    case = case_named(name)
    early = (regard.Entropy(),) if asked == "all" else ()
    a, leaves = ring_of(name, dtype, kind, gradients=True, summaries=early)
    found = QUESTIONS[asked](a)
    weights = _weights(found, asked, case.keys, a.positions)
    grads = torch.autograd.grad((found * weights).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]


def _every_gradient(
    names: list[str], dtype: torch.dtype, kind: str
) -> dict[tuple[str, str], list[torch.Tensor]]:
    return {
        (name, asked): _gradients(name, dtype, kind, asked) for name in names for asked in QUESTIONS
    }


@lru_cache(maxsize=256)
def _right(name: str, asked: str, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """The definition in float64, of the numbers that `dtype` has."""
    case = case_named(name)
    inputs = case.inputs(dtype)
    tensors = (inputs.query, inputs.key, inputs.value)
    leaves = [t.detach().double().requires_grad_() for t in tensors]
    a = regard.attend(*leaves, implementation="dense", **inputs.options)
    found = QUESTIONS[asked](a)
    weights = _weights(found, asked, case.keys, torch.arange(case.keys))
    grads = torch.autograd.grad((found * weights).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_one_rank_is_many_ranks(world: int, kind: str) -> None:
    every = (world, kind) == (3, "zigzag")  # all cases; some with every number of ranks
    names = [case.name for case in CASES] if every else SOME
    results = run(world, _every_gradient, names, torch.float64, kind)
    for name, asked in results[0]:
        shards = shards_of(kind, case_named(name).keys, world)
        exact = _right(name, asked)
        for n, letter in enumerate("qkv"):
            whole = shards.join([rank[name, asked][n] for rank in results])
            scale = max(float(exact[n].abs().max()), 1.0) * max(case_named(name).spread, 1.0)
            worst = float((whole - exact[n]).abs().max()) / scale
            assert worst < 1e-10, f"d {asked} / d {letter}, {name}, {world}, {kind}: {worst:.1e}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("world", [2, 3])
def test_in_low_precision(world: int, dtype: torch.dtype) -> None:
    names = ["causal", "everything", "one key head"]
    results = run(world, _every_gradient, names, dtype, "zigzag")
    for name, asked in results[0]:
        shards = shards_of("zigzag", case_named(name).keys, world)
        exact = _right(name, asked, dtype)
        for n, letter in enumerate("qkv"):
            whole = shards.join([rank[name, asked][n] for rank in results])
            assert whole.dtype == dtype
            # 8 roundings of the largest number: a sum over all keys of rounded products
            allowed = 8 * torch.finfo(dtype).eps * max(float(exact[n].abs().max()), 1.0)
            worst = float((whole.double() - exact[n]).abs().max())
            assert worst < allowed, f"d {asked} / d {letter} of {name}: {worst:.1e} > {allowed:.1e}"


def _of_rules(name: str, kind: str) -> list[torch.Tensor]:
    case = case_named(name)
    inputs = case.inputs(torch.float64)
    learning = _learning(inputs.options)
    shards = shards_of(kind, case.keys, dist.get_world_size())
    q, k, v = (shards.take(t, dist.get_rank()) for t in (inputs.query, inputs.key, inputs.value))
    a = regard.parallel.ring(q, k, v, shards=shards, **inputs.options)
    weights = _weights(a.output, "output", case.keys, a.positions)
    grads = torch.autograd.grad((a.output * weights).sum() + a.entropy().sum(), learning)
    return list(grads)


@pytest.mark.parametrize("name", ["alibi", "relative bias", "bias table", "sink", "everything"])
@pytest.mark.parametrize("world", [1, 3])
def test_biases_and_sinks_get_the_sum_over_all_ranks(world: int, name: str) -> None:
    case = case_named(name)
    inputs = case.inputs(torch.float64)
    learning = _learning(inputs.options)
    a = regard.attend(
        inputs.query, inputs.key, inputs.value, implementation="dense", **inputs.options
    )
    weights = _weights(a.output, "output", case.keys, torch.arange(case.keys))
    exact = torch.autograd.grad((a.output * weights).sum() + a.entropy().sum(), learning)
    for found in run(world, _of_rules, name, "zigzag"):
        for mine, right in zip(found, exact, strict=True):
            torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-9)


def _refusals() -> list[str]:
    a, _ = ring_of("causal", torch.float32, "even", gradients=True)
    messages = []
    for value in (a.top(2).weights, a.peak().weights, a.received(), a.pooled(8), a.max_score()):
        try:
            value.sum().backward()
        except regard.errors.GradientError as error:
            messages.append(str(error))
    return messages


def test_what_has_no_gradient_says_so() -> None:
    for messages in run(2, _refusals):
        assert len(messages) == 5
        assert all("has no gradient over a ring" in one for one in messages)


def _without_grad() -> list[bool]:
    with torch.no_grad():
        a, _ = ring_of("causal", torch.float32, "even", gradients=True)
    b, _ = ring_of("causal", torch.float32, "even")
    return [t.requires_grad for t in (a.output, a.lse, a.entropy(), b.output, b.top(1).weights)]


def test_no_graph_where_none_was_wanted() -> None:
    assert run(2, _without_grad) == [[False] * 5] * 2
