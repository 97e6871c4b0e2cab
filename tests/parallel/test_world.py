"""The worlds that other tests run in: they answer, they fail loudly, they never hang."""

from __future__ import annotations

import os
import signal
import time
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

from parallel import world
from parallel.world import run


def _sum_of_ranks(start: int) -> tuple[int, float]:
    total = torch.tensor([float(start + dist.get_rank())])
    dist.all_reduce(total)
    return dist.get_rank(), float(total)


def _fail_on(rank: int) -> None:
    if dist.get_rank() == rank:
        raise ValueError("this one has had enough")
    dist.barrier()


def _die_on(rank: int) -> str:
    if dist.get_rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    return "still here"


def _sleep_on(rank: int) -> None:
    if dist.get_rank() == rank:
        time.sleep(60)


def test_the_failing_rank_is_heard_and_the_next_run_works() -> None:
    grace = patch.object(world, "_GRACE", 0.5)
    with grace, pytest.raises(AssertionError, match=r"rank 1 ──[\s\S]*this one has had enough"):
        run(2, _fail_on, 1)
    assert run(2, _sum_of_ranks, 0) == [(0, 1.0), (1, 1.0)]


def test_a_dead_rank_is_an_error_unless_it_was_meant_to_die() -> None:
    with pytest.raises(AssertionError, match="rank 1 ──\nthe process ended with code -9"):
        run(2, _die_on, 1)
    assert run(2, _die_on, 1, dying=[1]) == ["still here", None]


def test_a_silent_rank_ends_the_run() -> None:
    run(2, _sum_of_ranks, 0)  # both have begun
    with pytest.raises(AssertionError, match=r"ranks \[1\] did not come back within 1 s"):
        run(2, _sleep_on, 1, timeout=1.0)
