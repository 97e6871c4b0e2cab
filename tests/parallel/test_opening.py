"""How an attention over ranks begins: what one rank cannot take, no rank begins."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.world import run
from regard.engine.observers import editing
from regard.errors import RegardError, ShapeError
from regard.parallel import Shards
from regard.parallel.opening import check_held

WAYS = ("ring", "ulysses", "tree")


def _part() -> tuple[torch.Tensor, Shards]:
    world = dist.get_world_size()
    return torch.randn(2, 4, 8), Shards.even(4 * world, world)


def _called(way: str, **options: Any) -> str:
    part, shards = _part()
    query = torch.ones(2, 1, 8) if way == "tree" else part
    try:
        getattr(regard.parallel, way)(query, part, part, shards=shards, **options)
    except (RegardError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


def _broken_rule(way: str) -> str:
    def rule(i: Any, j: Any) -> Any:
        if dist.get_rank() == 1:
            raise ValueError("this rule is broken")
        return i >= j

    return _called(way, mask=regard.Rule(rule))


@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_the_callers_own_code_ends_all_ranks(way: str) -> None:
    told = run(3, _broken_rule, way)
    assert told[1] == "ValueError: this rule is broken"
    assert "rank 1 could not take what was given there" in told[0] == told[2]


def _different_ways() -> str:
    return _called(WAYS[dist.get_rank()])


def test_ranks_that_go_different_ways_find_out() -> None:
    for rank, said in enumerate(run(3, _different_ways)):
        assert "the ranks disagree on what to do: ranks 1, 2 differs from rank 0" in said
        assert f"rank {rank} has {WAYS[rank]}" in said


def _changed(way: str) -> str:
    with editing(object()):  # type: ignore[arg-type]
        return _called(way)


@pytest.mark.parametrize("way", WAYS)
def test_attention_that_is_being_changed_is_refused(way: str) -> None:
    assert all("attention is being changed" in said for said in run(2, _changed, way))


def test_what_a_rank_holds() -> None:
    shards = Shards.contiguous([3, 5])
    check_held("key", torch.zeros(2, 5, 4), shards, 1)
    with pytest.raises(ShapeError, match=r"key \(2, 5, 4\) has 5 tokens, the shard of rank 0 has"):
        check_held("key", torch.zeros(2, 5, 4), shards, 0)
    with pytest.raises(ShapeError, match=r"key is list; give a tensor"):
        check_held("key", [1.0], shards, 0)
