"""Many ranks = one rank: output, lse and every statistic that merges, against the definition."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

import regard
from each.conftest import call_of
from parallel.sequences import CASES, MERGING, case_named, ring_of, shards_of
from parallel.world import WORLDS, run
from regard.parallel import travel, whole
from regard.summary import Visible
from regard.testing import Yardstick

KINDS = ("even", "zigzag", "uneven")
# float32 on every number of ranks, shared out in every way; a narrow type once
RUNS = [
    *((world, kind, torch.float32) for world in WORLDS for kind in KINDS),
    (3, "zigzag", torch.bfloat16),
]


@lru_cache(maxsize=64)
def right_of(name: str, dtype: torch.dtype) -> Yardstick:
    """What one rank has to say about the whole."""
    return Yardstick(call_of(case_named(name).inputs(dtype)))


def _measure(names: list[str], dtype: torch.dtype, kind: str) -> list[dict[str, Any]]:
    found = []
    for name in names:
        a, _ = ring_of(name, dtype, kind, summaries=(*MERGING, Visible(), regard.Top(5)))
        known = a.summarize(*MERGING, Visible())
        found.append(
            {"output": a.output, "lse": a.lse, "top": tuple(a.top(5)), "peak": tuple(a.peak())}
            | {repr(summary): value for summary, value in known.items()}
        )
    return found


@pytest.mark.parametrize(("world", "kind", "dtype"), RUNS)
def test_one_rank_is_many_ranks(world: int, kind: str, dtype: torch.dtype) -> None:
    names = [case.name for case in CASES]
    told = run(world, _measure, names, dtype, kind)
    for n, name in enumerate(names):
        right, shape = right_of(name, dtype), right_of(name, dtype).call.shape
        shards = shards_of(kind, shape.keys, world)

        def joined(key: str, dim: int = -1, n: int = n, shards: Any = shards) -> torch.Tensor:
            return shards.join([rank[n][key] for rank in told], dim)

        label = f"{name}, {world} ranks, {kind}"
        assert told[0][n]["output"].dtype == dtype
        right.budget(lambda s: s.context).check(joined("output", -2), f"output of {label}")
        right.budget(lambda s: s.lse).check(joined("lse"), f"lse of {label}")
        for summary in (*MERGING, Visible()):
            budget = right.budget(lambda s, m=summary, shape=shape: m.define(s, shape))
            budget.check(joined(repr(summary)), f"{summary!r} of {label}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_top_keys_are_numbers_of_the_whole_sequence(world: int, kind: str) -> None:
    names = [case.name for case in CASES]
    told = run(world, _measure, names, torch.float64, kind)
    for n, name in enumerate(names):
        right, shape = right_of(name, torch.float64), right_of(name, torch.float64).call.shape
        shards = shards_of(kind, shape.keys, world)
        exact = regard.Top(5).define(right.exact, shape)
        top = [shards.join([rank[n]["top"][side] for rank in told], -2) for side in (0, 1)]
        peak = shards.join([rank[n]["peak"][1] for rank in told], -1)
        assert torch.equal(top[1], exact.keys), f"{name}, {world} ranks, {kind}"
        assert torch.equal(peak, exact.keys[..., 0])
        torch.testing.assert_close(top[0], exact.weights, rtol=1e-10, atol=1e-12)


def _late(name: str) -> dict[str, Any]:
    early, _ = ring_of(name, torch.float64, "zigzag", summaries=(*MERGING, regard.Top(7)))
    late, _ = ring_of(name, torch.float64, "zigzag")
    same = {repr(s): torch.equal(early.summarize(s)[s], late.summarize(s)[s]) for s in MERGING}
    same["top"] = torch.equal(early.top(3).keys, late.top(3).keys)
    same["normalized"] = torch.equal(early.entropy(True), late.entropy(True))
    return same


def test_what_is_asked_late_is_what_was_asked_early() -> None:
    for told in run(2, _late, "everything"):
        assert all(told.values()), told


def _without_tokens() -> tuple[tuple[int, ...], ...]:
    shards = regard.parallel.Shards.contiguous([5, 0])
    q = torch.randn(2, 5 * (1 - dist.get_rank()), 8)
    a = regard.parallel.ring(q, q, q, shards=shards, summaries=(regard.Top(2),))
    return tuple(a.output.shape), tuple(a.lse.shape), tuple(a.top(2).keys.shape), a.shape


def test_a_rank_without_tokens_takes_part() -> None:
    first, second = run(2, _without_tokens)
    assert first == ((2, 5, 8), (2, 5), (2, 5, 2), (2, 5, 5))
    assert second == ((2, 0, 8), (2, 0), (2, 0, 2), (2, 0, 5))


def _order() -> list[str]:
    """What happens when: posts, blocks and waits of one ring."""
    shards = regard.parallel.Shards.even(9, 3)
    q = torch.randn(1, 3, 8)
    seen: list[str] = []

    def spied(name: str, real: Any) -> Any:
        def spy(*given: Any, **options: Any) -> Any:
            seen.append(name)
            return real(*given, **options)

        return spy

    real = travel.pass_on, travel.Arrival.wait, whole.Whole.partial
    with (
        patch.object(travel, "pass_on", spied("post", real[0])),
        patch.object(travel.Arrival, "wait", spied("wait", real[1])),
        patch.object(whole.Whole, "partial", spied("block", real[2])),
    ):
        regard.parallel.ring(q, q, q, shards=shards, check=False)
    return seen


def test_keys_are_under_way_before_a_block_is_computed() -> None:
    checked, *order = ["block", "post", "block", "wait", "post", "block", "wait", "block"]
    assert run(3, _order) == [[checked, *order]] * 3  # the first block is the empty one that checks
