"""Ulysses: tokens traded for heads and back, against the definition on one rank."""

from __future__ import annotations

import os
import signal
from functools import lru_cache
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import regard
from parallel.sequences import KINDS, case_named, my_part, names_on, shards_of
from parallel.world import WORLDS, run
from regard.parallel.ulysses import HeadwiseAttention, split_heads, ulysses
from regard.summary import Visible
from regard.testing import Case

ROWS: tuple[regard.summary.Summary, ...] = (
    regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Concentration(),
    regard.Distance(), Visible(),
)  # fmt: skip
KEYS = (
    regard.Received(), regard.Received(1), regard.Received(per="visible"),
    regard.Received([0, -1], "visible", "sum"), regard.Received(groups="mean"),
    regard.Received(how="max"), regard.Received(2, groups="max", how="max"),
)  # fmt: skip
OF_THE_MATRIX = (regard.Pooled(7), regard.Pooled(), regard.Offsets())
HEADS = [(4, 2), (5, 5), (6, 2), (8, 1), (2, 2), (6, 3), (3, 1)]


def _parts(found: Any, rows: bool = True) -> dict[str, Tensor]:
    """Everything an attention says, by name."""
    results = {"output": found.output, "lse": found.lse, "sink": found.sink_mass()}
    results |= {"normalized": found.entropy(normalized=True)}
    results |= {"top": found.top(5).weights, "top keys": found.top(5).keys}
    results |= {"peak": found.peak().weights, "peak keys": found.peak().keys}
    known = found.summarize(*ROWS, *KEYS, *OF_THE_MATRIX)
    return results | {repr(summary): value for summary, value in known.items()}


def _axis(name: str) -> int | None:
    """Where the tokens of an answer are; None where it is about the whole matrix."""
    if name in ("output", "top", "top keys"):
        return -2
    return None if any(name == repr(summary) for summary in OF_THE_MATRIX) else -1


def _ulysses(
    case: Case, kind: str, gradients: bool = False, **more: Any
) -> tuple[HeadwiseAttention, list[Tensor]]:
    inputs = case.inputs(torch.float64)
    shards = shards_of(kind, case.keys, dist.get_world_size())
    leaves = my_part(inputs, shards, gradients)
    return ulysses(*leaves, shards=shards, **(inputs.options | more)), leaves


def _case(name: str, heads: tuple[int, int] | None) -> Case:
    if heads is None:
        return case_named(name)
    return Case(
        name, heads=heads[0], key_heads=heads[1], queries=13, keys=13,
        mask=lambda _: regard.Causal(), options=case_named("everything").options,
    )  # fmt: skip


@lru_cache(maxsize=128)
def _right(name: str, heads: tuple[int, int] | None) -> dict[str, Tensor]:
    inputs = _case(name, heads).inputs(torch.float64)
    return _parts(
        regard.attend(
            inputs.query, inputs.key, inputs.value, implementation="dense", **inputs.options
        )
    )


def _measure(names: list[str], heads: tuple[int, int] | None, kind: str) -> list[Any]:
    return [_parts(_ulysses(_case(name, heads), kind)[0]) for name in names]


def _compare(names: list[str], heads: tuple[int, int] | None, kind: str, world: int) -> None:
    results = run(world, _measure, names, heads, kind)
    for n, name in enumerate(names):
        shards = shards_of(kind, _case(name, heads).keys, world)
        for asked, right in _right(name, heads).items():
            values = [rank[n][asked] for rank in results]
            at = _axis(asked)
            for found in values if at is None else [shards.join(values, at)]:
                torch.testing.assert_close(
                    found, right, rtol=1e-9, atol=1e-10,
                    msg=lambda text, asked=asked, name=name: f"{asked} of {name}: {text}",
                )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_one_rank_is_many_ranks(world: int, kind: str) -> None:
    _compare(names_on(world, kind), None, kind, world)


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("world", WORLDS)
def test_heads_need_not_divide(world: int, heads: tuple[int, int]) -> None:
    _compare(["everything"], heads, "uneven", world)


# ── gradients ────────────────────────────────────────────────────────────────────────────────

LEARNT = ("output", "lse", "Entropy()", "top", "peak", "Received(queries=None, per='sum', "
          "groups=None, how='sum')", "normalized", "sink")  # fmt: skip


def _loss(results: dict[str, Tensor], asked: str, positions: Tensor, tokens: int) -> Tensor:
    found = results[asked]
    at = _axis(asked) or -1
    shape = list(found.shape)
    shape[at] = tokens
    weights = torch.linspace(0.5, 1.5, torch.Size(shape).numel(), dtype=found.dtype)
    weights = weights.reshape(shape).index_select(at, positions)
    return (found.masked_fill(found == -torch.inf, 0.0) * weights).sum()


def _learning(options: dict[str, Any]) -> list[Tensor]:
    bias = regard.score.as_bias(options["bias"]).map(lambda t: t.detach().requires_grad_())
    options |= {"bias": bias, "sink": options["sink"].detach().requires_grad_()}
    return [*bias.arrays(), options["sink"]]


def _gradients(heads: tuple[int, int], kind: str, alone: bool) -> dict[str, list[Tensor]]:
    case = _case("everything", heads)
    inputs = case.inputs(torch.float64)
    rules = _learning(inputs.options)
    if alone:
        leaves = [t.requires_grad_() for t in (inputs.query, inputs.key, inputs.value)]
        a: Any = regard.attend(*leaves, implementation="dense", **inputs.options)
        positions = torch.arange(case.keys)
    else:
        a, leaves = _ulysses(case, kind, gradients=True, **inputs.options)
        positions = a.positions
    results = _parts(a)
    return {
        asked: [
            torch.zeros_like(leaf) if grad is None else grad
            for leaf, grad in zip(
                [*leaves, *rules],
                torch.autograd.grad(
                    _loss(results, asked, positions, case.keys), [*leaves, *rules],
                    retain_graph=True, allow_unused=True,
                ),
                strict=True,
            )
        ]
        for asked in LEARNT
    }  # fmt: skip


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("world", WORLDS)
def test_gradients(world: int, heads: tuple[int, int]) -> None:
    right = _gradients(heads, "zigzag", alone=True)
    results = run(world, _gradients, heads, "zigzag", False)
    shards = shards_of("zigzag", 13, world)
    for asked, grads in right.items():
        for n, exact in enumerate(grads):
            values = [rank[asked][n] for rank in results]
            # those of rules are sums over all ranks already
            for found in [shards.join(values)] if n < 3 else values:
                torch.testing.assert_close(
                    found, exact, rtol=1e-9, atol=1e-9,
                    msg=lambda text, n=n, asked=asked: f"gradient {n} of {asked}: {text}",
                )  # fmt: skip


def _refusals() -> list[str]:
    a, _ = _ulysses(case_named("causal"), "even", gradients=True)
    messages = []
    for value in (a.pooled(8), a.max_score(), a.summarize(regard.Offsets())[regard.Offsets()]):
        with pytest.raises(regard.errors.GradientError) as caught:
            value.sum().backward()
        messages.append(str(caught.value))
    return messages


def test_what_has_no_gradient_says_so() -> None:
    for messages in run(2, _refusals):
        assert all("has no gradient" in one for one in messages)


# ── behaviour ────────────────────────────────────────────────────────────────────────────────


def _in_low_precision(dtype: torch.dtype) -> list[float]:
    inputs = case_named("causal").inputs(dtype)
    shards = shards_of("zigzag", inputs.query.shape[-2], dist.get_world_size())
    a = ulysses(*my_part(inputs, shards), shards=shards, **inputs.options)
    right = regard.attend(inputs.query, inputs.key, inputs.value, **inputs.options)
    assert a.output.dtype == dtype and a.lse.dtype == torch.float32
    pairs = ((a.output, right.output, -2), (a.lse, right.lse, -1))
    return [float((x - shards.take(y, a.rank, at)).abs().max()) for x, y, at in pairs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_kernels_are_those_of_one_rank(dtype: torch.dtype) -> None:
    for output, lse in run(3, _in_low_precision, dtype):
        assert output == 0  # the same bits
        assert lse == 0


def _known() -> tuple[str, tuple[int, ...], list[bool]]:
    a, _ = _ulysses(case_named("causal"), "even", summaries=(regard.Entropy(), regard.Top(2)))
    if dist.get_rank() == 0:  # no collective: no other rank asks
        a.entropy(), a.summarize(regard.Top(2))
    dist.barrier()
    with torch.no_grad():
        b, _ = _ulysses(case_named("causal"), "even", gradients=True)
    return repr(a), a.shape, [t.requires_grad for t in (a.output, b.output, b.entropy())]


def test_what_was_asked_beforehand_is_known() -> None:
    message, shape, graphs = run(2, _known)[1]
    assert message.startswith("HeadwiseAttention(shape=")
    assert "rank 1 of 2" in message and "mask=Causal" in message
    assert shape[-2:] == (30, 61)
    assert graphs == [False] * 3


def _heard() -> tuple[int, list[str]]:
    from regard.engine.observers import Request, listening

    class Ear:
        heads = 0

        def wants(self, call: Any) -> Request[None]:
            return Request()

        def heard(self, attention: Any, request: Request[None]) -> None:
            self.heads += 1

    ear = Ear()
    with listening(ear):
        _ulysses(case_named("causal"), "even")
    messages = []
    with pytest.raises(regard.errors.InputError) as caught:
        _ulysses(case_named("causal"), "even", scale=float(1 + dist.get_rank()))
    messages.append(str(caught.value))
    with pytest.raises(regard.errors.InputError) as caught:
        _ulysses(case_named("causal"), "even")[0].summarize("entropy")  # type: ignore[arg-type]
    return ear.heads, [*messages, str(caught.value)]


def test_heads_of_one_rank_are_not_observed_and_ranks_must_agree() -> None:
    for heads, messages in run(2, _heard):
        assert heads == 0
        assert "disagree on score rule" in messages[0]
        assert "is not a summary" in messages[1]


def _edited() -> str:
    from regard.engine.observers import editing

    class Editor:
        def mask(self, call: Any) -> Any:
            return call.mask

        def output(self, call: Any, output: Tensor) -> Tensor:
            return output

    with editing(Editor()), pytest.raises(regard.errors.UnavailableError) as caught:
        _ulysses(case_named("causal"), "even")
    return str(caught.value)


def test_knock_outs_are_not_offered() -> None:
    assert all("knock_out" in message for message in run(2, _edited))


def _lost(rank: int) -> list[str]:
    if dist.get_rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(regard.errors.UnavailableError) as caught:
        _ulysses(case_named("causal"), "even", check=False)
    return list(caught.value.reasons)


def test_a_dead_rank_is_named() -> None:
    results = run(3, _lost, 1, dying=[1], patience=2.0)
    assert results == [["rank 1"], None, ["rank 1"]]


# ── which heads each rank computes ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("world", range(1, 9))
@pytest.mark.parametrize("heads", [(8, 8), (8, 4), (8, 2), (8, 1), (6, 3), (5, 5), (7, 7), (1, 1)])
def test_every_query_head_has_one_rank_and_finds_its_key_head(
    heads: tuple[int, int], world: int
) -> None:
    query_heads, key_heads = heads
    group = query_heads // key_heads
    found = split_heads(query_heads, key_heads, world)
    assert len(found) == world
    assert [head for rank in found for head in rank.query] == list(range(query_heads))
    for query, key in found:
        assert sorted({head // group for head in query}) == list(key)
        # whole groups, so that grouped heads stay grouped
        assert not key or len(query) % len(key) == 0


def test_as_evenly_as_it_goes() -> None:
    assert [len(rank.query) for rank in split_heads(8, 8, 3)] == [3, 3, 2]
    assert [len(rank.query) for rank in split_heads(8, 2, 4)] == [2, 2, 2, 2]
    assert [len(rank.query) for rank in split_heads(8, 4, 3)] == [4, 2, 2]
    assert [len(rank.query) for rank in split_heads(2, 2, 4)] == [1, 0, 1, 0]


def test_no_heads_at_all() -> None:
    assert [tuple(map(len, rank)) for rank in split_heads(0, 0, 2)] == [(0, 0), (0, 0)]
