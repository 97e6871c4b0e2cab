"""A rank that dies or sticks ends the run everywhere, with an error that names it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.world import run
from regard.parallel import Peers, Shards
from regard.parallel.failure import named

PATIENCE = 2.0  # seconds


def _long_ring(lost: int, how: Callable[[], None], backward: bool) -> tuple[str, list[str]]:
    """A ring in which one rank gets lost at the second block it computes."""
    seen: list[int] = []

    def mask(i: Any, j: Any) -> Any:
        seen.append(len(seen))
        if len(seen) > (8 if backward else 2) and dist.get_rank() == lost:
            how()
        return i >= j

    world = dist.get_world_size()
    shards = Shards.even(8 * world, world)
    q, k, v = (torch.randn(2, 8, 8, requires_grad=True) for _ in range(3))
    try:
        a = regard.parallel.ring(q, k, v, shards=shards, mask=regard.Rule(mask))
        while True:
            a.output.sum().backward(retain_graph=True)
    except regard.errors.UnavailableError as error:
        return str(error), list(error.reasons)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stick() -> None:
    time.sleep(60)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("world", "lost"), [(2, 1), (4, 2), (3, 0)])
def test_a_dead_rank_is_named_by_all_others(world: int, lost: int, backward: bool) -> None:
    told = run(world, _long_ring, lost, _die, backward, dying=[lost], patience=PATIENCE)
    for rank, said in enumerate(told):
        if rank != lost:
            assert said[1] == [f"rank {lost}"], said
            assert f"rank {rank} of {world} gave up in the ring: rank {lost} is lost" in said[0]


def test_a_rank_that_sticks_is_named_after_the_timeout() -> None:
    said = run(3, _stuck_ring, 1, patience=PATIENCE)
    assert said[0][1] == said[2][1] == ["rank 1"], said


def _stuck_ring(lost: int) -> tuple[str, list[str]]:
    def stick() -> None:
        time.sleep(PATIENCE + 4)
        raise regard.errors.UnavailableError("woke up")

    return _long_ring(lost, stick, False)


def _other_words() -> str:
    peers = Peers.of()
    try:
        with named(peers, None, "counting"):
            raise RuntimeError("the wire is cut\nsomewhere")
    except regard.errors.UnavailableError as error:
        return str(error)


def test_where_nobody_is_known_to_be_lost_it_says_some_rank() -> None:
    (said,) = run(1, _other_words)
    assert "gave up counting: some rank is lost" in said
    assert "some rank: the wire is cut" in said


def _all_but_one(lost: int) -> list[str]:
    try:
        with named(Peers.of(), None, "adding up"):
            if dist.get_rank() == lost:
                _die()
            dist.all_reduce(torch.ones(1))
    except regard.errors.UnavailableError as error:
        return list(error.reasons)
    return []


def test_in_a_collective_the_silent_rank_is_named() -> None:
    told = run(2, _all_but_one, 1, dying=[1], patience=PATIENCE)
    assert told[0] == ["rank 1"]
