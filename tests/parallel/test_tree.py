"""Decoding from keys that are split over ranks."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import regard
from parallel.sequences import KINDS, case_named, names_on
from parallel.world import WORLDS, run
from regard.parallel import Shards
from regard.parallel.tree import tree
from regard.state import Finished
from regard.summary import Visible

ROWS = (
    regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Concentration(),
    regard.Distance(), Visible(), regard.Top(5),
)  # fmt: skip
KEYS = (
    regard.Received(), regard.Received(1, "visible", "mean"), regard.Received(how="max"),
)  # fmt: skip


def _shards(kind: str, tokens: int, world: int) -> Shards:
    if kind == "uneven":
        return Shards.contiguous([0] * (world - 1) + [tokens])
    return Shards.zigzag(tokens, world) if kind == "zigzag" else Shards.even(tokens, world)


def _problem(name: str, queries: int) -> tuple[list[Tensor], dict[str, Any]]:
    """The last queries of a case, whose mask is about positions or of keys."""
    case = case_named(name)
    inputs = case.inputs(torch.float64)
    options = dict(inputs.options)
    if name == "documents":
        ids = torch.arange(case.keys) // 17
        options["mask"] = regard.Causal() & regard.Documents(ids[-queries:], ids)
    if name in ("lengths", "sink"):
        options["mask"] = regard.Padding([3, case.keys])
    if name == "bias table":
        options["bias"] = options["bias"][..., -queries:, :]
    return [inputs.query[..., -queries:, :], inputs.key, inputs.value], options


def _tree(name: str, queries: int, kind: str, **more: Any) -> tuple[Finished, Shards]:
    (q, k, v), options = _problem(name, queries)
    shards = _shards(kind, k.shape[-2], dist.get_world_size())
    k, v = (shards.take(t, dist.get_rank()) for t in (k, v))
    return tree(q, k, v, shards=shards, summaries=(*ROWS, *KEYS), **(options | more)), shards


def _answers(name: str, queries: int, kind: str) -> list[Any]:
    found, _ = _tree(name, queries, kind)
    return [found.output, found.lse, *(found[s] for s in (*ROWS, *KEYS))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_rank_says_what_one_rank_would(world: int, kind: str) -> None:
    for queries in (1, 2):
        for name in names_on(world, kind):
            (q, k, v), options = _problem(name, queries)
            right = regard.attend(q, k, v, implementation="dense", **options)
            exact = [right.output, right.lse, *right.summarize(*ROWS, *KEYS).values()]
            results = run(world, _answers, name, queries, kind)
            shards = _shards(kind, k.shape[-2], world)
            for n, value in enumerate(exact):
                if n >= 2 + len(ROWS):
                    found = [shards.join([rank[n] for rank in results], -1)]
                else:
                    found = [rank[n] for rank in results]
                for mine in found:
                    torch.testing.assert_close(
                        mine, value, rtol=1e-9, atol=1e-10,
                        msg=lambda text, n=n, name=name: f"{n} of {name}: {text}",
                    )  # fmt: skip


@pytest.mark.parametrize("name", ["everything", "one key head"])
def test_all_ranks_have_the_same_bits(name: str) -> None:
    first, *others = run(4, _answers, name, 2, "zigzag")
    for other in others:
        for a, b in zip(first[: 2 + len(ROWS)], other, strict=False):
            pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
            assert all(torch.equal(x, y) for x, y in pairs)


def _low(dtype: torch.dtype) -> tuple[torch.dtype, float]:
    inputs = case_named("causal").inputs(dtype)
    shards = Shards.even(61, dist.get_world_size())
    q = inputs.query[..., -1:, :]
    k, v = (shards.take(t, dist.get_rank()) for t in (inputs.key, inputs.value))
    found = tree(q, k, v, shards=shards)
    right = regard.attend(q, inputs.key, inputs.value, implementation="dense")
    return found.output.dtype, float((found.output - right.output).abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_in_low_precision(dtype: torch.dtype) -> None:
    for kind, worst in run(3, _low, dtype):
        assert kind == dtype
        assert worst < 4 * torch.finfo(dtype).eps


def _wrong(how: str) -> str:
    (q, k, v), options = _problem("causal", 1)
    rank, world = dist.get_rank(), dist.get_world_size()
    shards = Shards.even(61, world)
    k, v = (shards.take(t, rank) for t in (k, v))
    if how == "queries":
        q = q + rank
    if how == "tokens":
        k, v = k[..., :3, :], v[..., :3, :]
    if how == "world":
        shards = Shards.even(61, 5)
    if how == "gradient":
        q = q.clone().requires_grad_()
    summaries = (regard.Pooled(4),) if how == "summary" else ()
    with pytest.raises(regard.errors.RegardError) as caught:
        tree(q, k, v, shards=shards, summaries=summaries, **options)
    return str(caught.value)


MESSAGES = {
    "queries": "the ranks disagree on queries",
    "tokens": "the shard of rank",
    "world": "shards are of 5 ranks, the group has 2",
    "gradient": "query wants gradients",
    "summary": "does not merge over keys",
}


@pytest.mark.parametrize("how", MESSAGES)
def test_wrong_calls_raise_on_every_rank(how: str) -> None:
    for message in run(2, _wrong, how):
        assert MESSAGES[how] in message


def _bytes() -> int:
    """What a rank sends, for any number of keys."""
    from unittest.mock import patch

    sent = []
    gather = dist.all_gather

    def counted(taken: Any, message: Tensor, **more: Any) -> Any:
        sent.append(message.numel() * message.element_size())
        return gather(taken, message, **more)

    totals = []
    for tokens in (64, 640):
        shards = Shards.even(tokens, dist.get_world_size())
        q, k = torch.ones(1, 2, 1, 8), torch.ones(1, 2, tokens // 2, 8)
        with patch.object(dist, "all_gather", counted):
            tree(q, k, k, shards=shards)
        totals.append(sum(sent))
        sent.clear()
    assert totals[0] == totals[1]
    return totals[0]


def test_what_travels_does_not_grow_with_the_cache() -> None:
    for total in run(2, _bytes):
        assert total < 200  # two heads: 8 + 1 numbers each, and what the ranks compare


def _lost(rank: int) -> list[str]:
    if dist.get_rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(regard.errors.UnavailableError) as caught:
        _tree("causal", 1, "even", check=False)
    return list(caught.value.reasons)


def test_a_dead_rank_is_named() -> None:
    results = run(3, _lost, 2, dying=[2], patience=2.0)
    assert results == [["rank 2"], ["rank 2"], None]


def _large_scores() -> tuple[Tensor, Tensor]:
    """Scores near 64,000, where one float32 number is wrong by up to 0.002."""
    shards = Shards.even(12, dist.get_world_size())
    key = 64000 + torch.arange(12.0).reshape(1, 12, 1) / 64
    mine = shards.take(key, dist.get_rank())
    values = shards.take(torch.eye(12).unsqueeze(0), dist.get_rank())
    found = tree(torch.ones(1, 1, 1), mine, values, shards=shards, summaries=(regard.Top(12),))
    return found.output[0, 0], found[regard.Top(12)].weights[0, 0]


def test_large_scores_lose_nothing_on_the_way() -> None:
    right = torch.softmax(torch.arange(12.0, dtype=torch.float64) / 64, 0).float()
    for output, weights in run(3, _large_scores):
        torch.testing.assert_close(output, right, rtol=1e-5, atol=0)
        torch.testing.assert_close(weights, right.flip(0), rtol=1e-5, atol=0)


def _gradients_of(name: str) -> str:
    shards = Shards.even(4 * dist.get_world_size(), dist.get_world_size())
    part, given = torch.ones(2, 4, 8), torch.zeros(2 if name == "sink" else shards.tokens)
    options: dict[str, Any] = {name: given.requires_grad_()}
    try:
        tree(torch.ones(2, 1, 8), part, part, shards=shards, **options)
    except regard.errors.GradientError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize("name", ["bias", "sink"])
def test_gradients_of_the_rules_are_refused_too(name: str) -> None:
    assert all(
        message.startswith(f"{name} wants gradients") for message in run(2, _gradients_of, name)
    )


def _autocast() -> tuple[torch.dtype, float]:
    shards = Shards.even(4 * dist.get_world_size(), dist.get_world_size())
    query = torch.linspace(-3, 3, 16).reshape(2, 1, 8)
    part = torch.linspace(-2, 2, 64).reshape(2, 4, 8) + dist.get_rank()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = tree(query, part, part, shards=shards, summaries=(regard.Received(),))
    return found.output.dtype, float(found[regard.Received()].sum())


def test_autocast_is_one_for_rows_and_columns() -> None:
    results = run(2, _autocast)
    assert all(dtype == torch.bfloat16 for dtype, _ in results)
    # each of two heads has one row, whose weights are on all ranks together
    assert sum(mass for _, mass in results) == pytest.approx(2.0, abs=1e-5)
