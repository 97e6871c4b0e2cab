"""Decoding from keys that are split over ranks."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import regard
from parallel.sequences import KINDS, case_named, names_on
from parallel.world import WORLDS, run
from regard.parallel import Shards, tree
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


def _answers(names: list[str], queries: int, kind: str) -> list[list[Any]]:
    answers = []
    for name in names:
        (q, k, v), options = _problem(name, queries)
        shards = _shards(kind, k.shape[-2], dist.get_world_size())
        k, v = (shards.take(t, dist.get_rank()) for t in (k, v))
        a = tree(q, k, v, shards=shards, summaries=(*ROWS, *KEYS), **options)
        answers.append([a.output, a.lse, *(a[s] for s in (*ROWS, *KEYS))])
    return answers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_rank_says_what_one_rank_would(world: int, kind: str) -> None:
    """With the same bits on all."""
    queries, names = 1 + world % 2, names_on(world, kind)
    results = run(world, _answers, names, queries, kind)
    for m, name in enumerate(names):
        (q, k, v), options = _problem(name, queries)
        right = regard.attend(q, k, v, implementation="dense", **options)
        exact = [right.output, right.lse, *right.summarize(*ROWS, *KEYS).values()]
        shards = _shards(kind, k.shape[-2], world)
        for n, numbers in enumerate(exact):
            ranks = [rank[m][n] for rank in results]
            if n >= 2 + len(ROWS):
                ranks = [shards.join(ranks, -1)]
            for other in ranks[1:]:
                pairs = zip(ranks[0], other, strict=True)
                assert all(torch.equal(a, b) for a, b in pairs), f"{n} of {name}: other bits"
            torch.testing.assert_close(
                ranks[0], numbers, rtol=1e-9, atol=1e-10,
                msg=lambda text, n=n, name=name: f"{n} of {name}: {text}",
            )  # fmt: skip


def _low(dtype: torch.dtype) -> None:
    inputs = case_named("causal").inputs(dtype)
    shards = Shards.even(61, dist.get_world_size())
    q = inputs.query[..., -1:, :]
    k, v = (shards.take(t, dist.get_rank()) for t in (inputs.key, inputs.value))
    a = tree(q, k, v, shards=shards)
    right = regard.attend(q, inputs.key, inputs.value, implementation="dense")
    assert a.output.dtype == dtype
    assert (a.output - right.output).abs().max() < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_in_low_precision(dtype: torch.dtype) -> None:
    run(3, _low, dtype)


def _bytes() -> list[int]:
    """What a rank sends, of few keys and of many."""
    sent, gather = list[int](), dist.all_gather

    def counted(taken: Any, message: Tensor, **more: Any) -> Any:
        sent[-1] += message.numel() * message.element_size()
        return gather(taken, message, **more)

    for tokens in (64, 640):
        sent.append(0)
        shards = Shards.even(tokens, dist.get_world_size())
        q, k = torch.ones(1, 2, 1, 8), torch.ones(1, 2, tokens // 2, 8)
        with patch.object(dist, "all_gather", counted):
            tree(q, k, k, shards=shards)
    return sent


def test_what_travels_does_not_grow_with_the_cache() -> None:
    for few, many in run(2, _bytes):
        assert few == many < 200  # two heads: 8 + 1 numbers each, and what the ranks compare


def _large_scores() -> None:
    """Scores near 64,000, where one float32 number is wrong by up to 0.002."""
    shards = Shards.even(12, dist.get_world_size())
    key = 64000 + torch.arange(12.0).reshape(1, 12, 1) / 64
    mine = shards.take(key, dist.get_rank())
    values = shards.take(torch.eye(12).unsqueeze(0), dist.get_rank())
    a = tree(torch.ones(1, 1, 1), mine, values, shards=shards, summaries=(regard.Top(12),))
    right = torch.softmax(torch.arange(12.0, dtype=torch.float64) / 64, 0).float()
    torch.testing.assert_close(a.output[0, 0], right, rtol=1e-5, atol=0)
    weights = a[regard.Top(12)].weights[0, 0]
    torch.testing.assert_close(weights, right.flip(0), rtol=1e-5, atol=0)


def test_large_scores_lose_nothing_on_the_way() -> None:
    run(3, _large_scores)


def _autocast() -> float:
    shards = Shards.even(4 * dist.get_world_size(), dist.get_world_size())
    query = torch.linspace(-3, 3, 16).reshape(2, 1, 8)
    part = torch.linspace(-2, 2, 64).reshape(2, 4, 8) + dist.get_rank()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = tree(query, part, part, shards=shards, summaries=(regard.Received(),))
    assert a.output.dtype == torch.bfloat16
    return float(a[regard.Received()].sum())


def test_autocast_is_one_for_rows_and_columns() -> None:
    # each of two heads has one row, whose weights are on all ranks together
    assert sum(run(2, _autocast)) == pytest.approx(2.0, abs=1e-5)
