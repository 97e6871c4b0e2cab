"""What a ring leaves behind: what it is, what it remembers, when it refuses."""

from __future__ import annotations

import weakref
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import TOKENS, ring_of
from parallel.world import run
from regard.parallel import Shards


def _description() -> dict[str, Any]:
    a, _ = ring_of("sink", torch.float32, "zigzag")
    return {
        "shape": a.shape, "positions": a.positions, "rank": a.rank, "repr": repr(a),
        "shards": a.shards, "lse": a.lse.dtype, "output": a.output.dtype,
    }  # fmt: skip


def test_it_says_what_it_is() -> None:
    shards = Shards.zigzag(TOKENS, 2)
    for rank, told in enumerate(run(2, _description)):
        assert told["shape"] == (2, 4, shards.lengths[rank], TOKENS)
        assert torch.equal(told["positions"], shards.positions(rank))
        assert told["rank"] == rank
        assert told["shards"] == shards
        assert told["lse"] == told["output"] == torch.float32
        assert f"rank {rank} of 2" in told["repr"]


def _trips() -> list[int]:
    """How often tensors were passed on, after each question."""
    a, _ = ring_of("causal", torch.float32, "even", summaries=(regard.Top(5),), check=False)
    count: list[int] = []
    with patch.object(dist, "batch_isend_irecv", wraps=dist.batch_isend_irecv) as posts:
        for ask in (
            lambda: a.top(5), lambda: a.top(2), a.peak,  # known from the first ring
            a.entropy, a.entropy, lambda: a.entropy(True),  # a ring; known; another for the counts
            a.received, a.received, a.received,
            lambda: a.summarize(regard.Received(), regard.Entropy()),
        ):  # fmt: skip
            ask()
            count.append(posts.call_count)
    return count


def test_a_question_goes_round_once() -> None:
    for count in run(2, _trips):
        assert count[:3] == [0, 0, 0]
        assert count[3] == count[4] > 0
        assert count[5] > count[4]
        assert count[6] > count[5]
        assert count[6] == count[7] == count[8] == count[9]


def _sinks() -> tuple[torch.Tensor, torch.Tensor]:
    a, _ = ring_of("sink", torch.float64, "even")
    b, _ = ring_of("plain", torch.float64, "even")
    return a.sink_mass(), b.sink_mass()


def test_the_share_of_the_sink() -> None:
    from parallel.test_forward import right_of

    told = run(2, _sinks)
    shards = Shards.even(TOKENS, 2)
    whole = shards.join([mass for mass, _ in told], -1)
    torch.testing.assert_close(whole, right_of("sink", torch.float64).exact.sink)
    assert all(not mass.any() for _, mass in told)


def _stale() -> str:
    a, (_, key, _) = ring_of("causal", torch.float32, "even")
    key.add_(1)
    try:
        a.entropy()
    except regard.errors.StaleError as error:
        return str(error)
    return ""


def test_keys_changed_in_place_are_noticed() -> None:
    assert all("was changed in place after this ring" in said for said in run(2, _stale))


def _no_summary() -> str:
    a, _ = ring_of("causal", torch.float32, "even")
    try:
        a.summarize("entropy")  # type: ignore[arg-type]
    except regard.errors.InputError as error:
        return str(error)
    return ""


def test_only_summaries_can_be_asked_for() -> None:
    assert all("'entropy' is not a summary" in said for said in run(2, _no_summary))


@pytest.mark.parametrize("name", ["parallel", "nn"])
def test_it_is_loaded_on_first_use(name: str) -> None:
    assert name in dir(regard)
    assert getattr(regard, name).__name__ == f"regard.{name}"


def _lives() -> list[bool]:
    """Neither the graph nor the caches hold the answers' object back."""
    a, _ = ring_of("everything", torch.float32, "zigzag", gradients=True)
    kept, held = a.output, weakref.ref(a)
    a.received(), a.entropy()
    del a
    gone = held() is None
    kept.sum().backward()
    return [gone]


def test_the_graph_does_not_hold_it() -> None:
    assert run(2, _lives) == [[True]] * 2
