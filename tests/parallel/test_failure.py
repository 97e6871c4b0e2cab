"""A rank that dies or sticks ends the run everywhere, with an error that names it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
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
    said = run(3, _stuck_ring, 1, disturbed=True, patience=PATIENCE)
    assert said[0][1] == said[2][1] == ["rank 1"], said


def _stuck_ring(lost: int) -> tuple[str, list[str]]:
    def stick() -> None:
        time.sleep(PATIENCE + 4)
        raise regard.errors.UnavailableError("woke up")

    return _long_ring(lost, stick, False)


def _cut_wire(store_is_down: bool) -> str:
    peers = Peers.of()
    if store_is_down:
        peers = replace(peers, group=_NoStore())
    try:
        with named(peers, None, "counting"):
            raise RuntimeError("the wire is cut\nsomewhere")
    except regard.errors.UnavailableError as error:
        return str(error)


class _NoStore:
    def get_group_store(self) -> Any:
        raise RuntimeError("the store is down")


def test_where_nothing_can_be_found_out_it_says_some_rank() -> None:
    (said,) = run(1, _cut_wire, True)
    assert "gave up counting: some rank is lost" in said
    assert "some rank: the wire is cut" in said


def test_where_all_ranks_left_a_note_none_is_called_lost() -> None:
    for rank, said in enumerate(run(2, _cut_wire, False)):
        assert f"rank {rank} of 2 gave up counting: no rank is lost, all gave up" in said
        assert f"rank {rank}: the wire is cut" in said


def _out_of_step() -> str:
    """One rank asks first, the others run the backward first, and nobody compares."""
    world = dist.get_world_size()
    q, k, v = (torch.randn(2, 4, 8, requires_grad=True) for _ in range(3))
    a = regard.parallel.ring(q, k, v, shards=Shards.even(4 * world, world))
    try:
        if dist.get_rank() == 0:
            a.entropy()
        a.output.sum().backward()
    except regard.errors.UnavailableError as error:
        return str(error)
    return "taken"


def test_ranks_out_of_step_are_told_so() -> None:
    told = run(3, _out_of_step, disturbed=True, patience=PATIENCE)
    assert all("They are not in step: every rank must ask the same" in said for said in told), told


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
