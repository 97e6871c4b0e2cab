"""Many ranks say what one says, by ring and by Ulysses: every answer, and every gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from each.answers import ANSWERS, Answer
from parallel.sequences import (
    HEADS,
    KINDS,
    TOKENS,
    attention,
    case_named,
    names_on,
    right_of,
    shards_of,
)
from parallel.world import WORLDS, run
from regard.summary import Entropy, Offsets, Pooled, Received, Summary, Top

WAYS = ("ring", "ulysses")


def _summary(summary: Summary) -> Answer:
    return Answer(
        lambda a, _: a.summarize(summary)[summary],
        lambda steps, shape, _: summary.define(steps, shape),
    )


SHARED = (
    "output", "lse", "entropy", "max score", "max logit", "concentration", "distance", "visible",
    "received", "received by some", "largest", "offsets", "map", "map of any cell",
    "map of maxima",
)  # fmt: skip
MORE: dict[str, Summary] = {
    "mass of a group": Received(range(2, 50, 3), groups="mean"),
    "mass of the first and the last": Received([0, -1], "visible", "sum"),
    "largest of groups": Received(7, groups="max", how="max"),
    "the coarsest map": Pooled(100),
    "marks": regard.Matching(torch.arange(TOKENS) % 5, torch.arange(TOKENS) % 5),
}
EVERY = {name: ANSWERS[name] for name in SHARED} | {
    name: _summary(summary) for name, summary in MORE.items()
}
EVERY["top"] = Answer(lambda a, _: a.top(5).weights, lambda s, shape, _: Top(5).define(s, shape)[0])
EVERY["sink"] = Answer(lambda a, _: a.sink_mass(), lambda s, *_: s.sink)
# the whole matrix, on every rank; of the others tokens stand in the last axis but for two
OF_THE_MATRIX = ("offsets", "map", "map of any cell", "map of maxima", "the coarsest map")
COLUMNS_LAST = ("output", "top", "top keys")
LONG = ("mass of a group", "marks")  # about queries that two tokens have not


def asked_of(name: str) -> list[str]:
    tokens = case_named(name).keys
    return [what for what in EVERY if tokens > 50 or what not in LONG]


def _answers(way: str, names: list[str], dtype: torch.dtype, kind: str) -> list[dict[str, Tensor]]:
    results = []
    for name in names:
        a, _ = attention(way, name, dtype, kind, summaries=(Entropy(), Top(5)))
        results.append({what: EVERY[what].ask(a, None) for what in asked_of(name)})  # type: ignore[arg-type]
        results[-1] |= {"top keys": a.top(5).keys, "peak keys": a.peak().keys}
    return results


# float64 on every number of ranks, shared out in every way; narrower types once
RUNS = [
    *((world, kind, torch.float64) for world in WORLDS for kind in KINDS),
    (3, "zigzag", torch.float32), (3, "zigzag", torch.bfloat16),
]  # fmt: skip


def expect_right(way: str, names: Any, dtype: torch.dtype, kind: str, world: int) -> None:
    results = run(world, _answers, way, names, dtype, kind)
    for n, name in enumerate(names):
        right, shape = right_of(name, dtype), right_of(name, dtype).call.shape
        shards = shards_of(kind, shape.keys, world)
        label = f"of {name}, {world} ranks, {kind}"
        assert results[0][n]["output"].dtype == dtype
        for what in asked_of(name):
            values, define = [rank[n][what] for rank in results], EVERY[what].define
            budget = right.budget(lambda s, d=define, shape=shape: d(s, shape, None))  # type: ignore[misc]
            axis = -2 if what in COLUMNS_LAST else -1
            joined = values if what in OF_THE_MATRIX else [shards.join(values, axis)]
            assert all(torch.equal(each, joined[0]) for each in joined)
            budget.check(joined[0], f"{what} {label}")
        if dtype == torch.float64:  # no two scores are near enough to swap places
            exact = Top(5).define(right.exact, shape).keys
            keys = shards.join([rank[n]["top keys"] for rank in results], -2)
            assert torch.equal(keys, exact), f"top keys {label}"
            peaks = shards.join([rank[n]["peak keys"] for rank in results], -1)
            assert torch.equal(peaks, exact[..., 0]), f"peak {label}"


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("world", "kind", "dtype"), RUNS)
@pytest.mark.parametrize("way", WAYS)
def test_one_rank_is_many_ranks(way: str, world: int, kind: str, dtype: torch.dtype) -> None:
    expect_right(way, names_on(world, kind), dtype, kind, world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("way", WAYS)
def test_heads_need_not_divide(way: str, world: int) -> None:
    names = [f"{heads} heads of {keys}" for heads, keys in HEADS]
    expect_right(way, names if way == "ulysses" else names[:2], torch.float64, "uneven", world)


# ── gradients ────────────────────────────────────────────────────────────────────────────────


def _finite(numbers: Tensor) -> Tensor:
    return numbers.masked_fill(numbers == -torch.inf, 0.0)


LEARNING: dict[str, Callable[[Any], Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: _finite(a.lse),
    "entropy": lambda a: a.entropy(),
    "all": lambda a: a.output.sum(-1) + a.entropy() + _finite(a.lse),
}
# of whole heads on one rank
OF_HEADS: dict[str, Callable[[Any], Tensor]] = {
    "top": lambda a: a.top(5).weights,
    "peak": lambda a: a.peak().weights,
    "received": lambda a: a.received(),
    "normalized": lambda a: a.entropy(normalized=True),
    "sink": lambda a: a.sink_mass(),
}


def _rules(options: dict[str, Any]) -> list[Tensor]:
    """The arrays of the bias and the sink, as leaves in the options."""
    leaves: list[Tensor] = []
    if "bias" in options:
        bias = regard.score.as_bias(options["bias"])
        options["bias"] = bias.map(lambda t: t.detach().clone().requires_grad_())
        leaves += options["bias"].arrays()
    if "sink" in options:
        options["sink"] = options["sink"].detach().clone().requires_grad_()
        leaves.append(options["sink"])
    return leaves


def _gradients(way: str, name: str, dtype: torch.dtype, kind: str) -> dict[str, list[Tensor]]:
    """Of q, k, v, and in float64 of the arrays of the bias and the sink; alone where the way is
    "dense"."""
    case = case_named(name)
    inputs = case.inputs(dtype)
    rules = _rules(inputs.options) if dtype == torch.float64 else []
    if way == "dense":
        leaves = [t.detach().double() for t in (inputs.query, inputs.key, inputs.value)]
        leaves = [t.requires_grad_() for t in leaves]
        a: Any = regard.attend(*leaves, implementation="dense", **inputs.options)
        positions = torch.arange(case.keys)
    else:
        a, leaves = attention(way, name, dtype, kind, gradients=True, **inputs.options)
        positions = a.positions
    grads = {}
    for asked, ask in (LEARNING | (OF_HEADS if way != "ring" else {})).items():
        answer = ask(a)
        if not answer.requires_grad:  # the share of a sink that is not there
            continue
        axis = -2 if asked in ("output", "top") else -1  # where the tokens stand
        shape = list(answer.shape)
        shape[axis] = case.keys
        # a different number for every place, the same on however many ranks
        weights = torch.linspace(0.5, 1.5, torch.Size(shape).numel(), dtype=torch.float64)
        weights = weights.reshape(shape).index_select(axis, positions).to(answer.dtype)
        grads[asked] = list(
            torch.autograd.grad(
                (answer * weights).sum(), [*leaves, *rules], retain_graph=True, allow_unused=True,
                materialize_grads=True,
            )
        )  # fmt: skip
    return grads


@lru_cache(maxsize=64)
def _right(name: str, dtype: torch.dtype) -> dict[str, list[Tensor]]:
    """The definition in float64, of the numbers that `dtype` has."""
    return _gradients("dense", name, dtype, "")


def _every_gradient(way: str, names: list[str], dtype: torch.dtype, kind: str) -> list[Any]:
    return [_gradients(way, name, dtype, kind) for name in names]


def expect_gradients(way: str, names: Any, dtype: torch.dtype, kind: str, world: int) -> None:
    results = run(world, _every_gradient, way, names, dtype, kind)
    for n, name in enumerate(names):
        case = case_named(name)
        shards = shards_of(kind, case.keys, world)
        asked_of_ranks = LEARNING if way == "ring" else _right(name, dtype)
        for asked in asked_of_ranks:
            for m, exact in enumerate(_right(name, dtype)[asked]):
                values = [rank[n][asked][m] for rank in results]
                # those of rules are sums over all ranks already
                for mine in [shards.join(values)] if m < 3 else values:
                    # 8 roundings of the largest number: a sum over all keys of rounded products
                    grain = 8 * torch.finfo(dtype).eps if dtype != torch.float64 else 1e-10
                    largest = max(float(exact.abs().max()), 1.0) * max(case.spread, 1.0)
                    worst = float((mine.double() - exact).abs().max())
                    label = f"d {asked} / d {m}, {name}, {world}, {kind}"
                    assert worst < grain * largest, f"{label}: {worst:.1e}"
                    assert m > 2 or mine.dtype == dtype


SOME = ["plain", "causal", "lengths", "everything", "one key head", "two tokens"]
RULES = ["alibi", "relative bias", "bias table", "sink"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("way", WAYS)
def test_gradients(way: str, world: int, kind: str) -> None:
    names = SOME[KINDS.index(kind) % 2 :: 2]
    expect_gradients(way, names, torch.float64, kind, world)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_rules_are_sums_over_all_ranks(way: str) -> None:
    heads = [f"{heads} heads of {keys}" for heads, keys in HEADS] if way == "ulysses" else []
    expect_gradients(way, [*RULES, *heads, "everything"], torch.float64, "zigzag", 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_in_low_precision(dtype: torch.dtype) -> None:
    expect_gradients("ring", ["causal", "everything", "one key head"], dtype, "zigzag", 3)


# ── soon or late, checked or not, in any precision ───────────────────────────────────────────


def _late(way: str) -> None:
    asked = (Entropy(), regard.MaxScore(), regard.Distance(), Received(), Pooled(8), Offsets())
    early, _ = attention(way, "everything", summaries=(*asked, Top(7)))
    late, _ = attention(way, "everything")
    unchecked, _ = attention(way, "everything", check=False)
    for summary in asked:
        right = early.summarize(summary)[summary]
        assert torch.equal(late.summarize(summary)[summary], right), repr(summary)
        assert torch.equal(unchecked.summarize(summary)[summary], right), repr(summary)
    assert torch.equal(early.top(3).keys, late.top(3).keys)
    assert torch.equal(early.entropy(True), late.entropy(True))
    assert torch.equal(late.received(5, "visible", "sum"), early.received(5, "visible", "sum"))
    assert torch.equal(late.pooled(how="max"), early.pooled(how="max"))


@pytest.mark.parametrize("way", WAYS)
def test_asked_late_or_without_the_check_it_has_the_same_bits(way: str) -> None:
    run(2, _late, way)


def _implementations() -> None:
    answers = []
    for name in ("cpu", "tiled", "dense"):
        a, _ = attention("ring", "causal", implementation=name)
        answers.append(a.output + a.entropy()[..., None])
    for other in answers[1:]:
        torch.testing.assert_close(other, answers[0])


def test_every_implementation_computes_the_same() -> None:
    run(2, _implementations)
