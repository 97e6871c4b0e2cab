"""Tensors that go round: every rank meets every shard, and sums come home."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
import torch
import torch.distributed as dist

from parallel.world import WORLDS, run
from regard.parallel import Peers
from regard.parallel.travel import Luggage, around, pass_on


def _tour(lengths: list[int]) -> list[tuple[int, list[list[float]]]]:
    rank = dist.get_rank()
    mine = [torch.full((2, lengths[rank]), float(rank)), torch.arange(lengths[rank]).unsqueeze(0)]
    return [
        (owner, [tensor[0].tolist() for tensor in held])
        for owner, held in around(Peers.of(), mine, lengths, axis=-1)
    ]


@pytest.mark.parametrize("world", WORLDS)
def test_every_shard_passes_every_rank_own_first(world: int) -> None:
    lengths = [3, 0, 5, 1][:world]
    for rank, met in enumerate(run(world, _tour, lengths)):
        assert [owner for owner, _ in met] == [(rank - step) % world for step in range(world)]
        for owner, held in met:
            assert held == [[float(owner)] * lengths[owner], list(range(lengths[owner]))]


def _sums(lengths: list[int]) -> list[list[float]]:
    """Each rank adds 10^rank to every token it meets, and counts them."""
    peers = Peers.of()
    luggage = Luggage(peers, lengths, axis=-1)
    mine = torch.arange(lengths[peers.rank], dtype=torch.float64)
    for _, (held,) in around(peers, [mine], lengths, axis=-1):
        luggage.add([held + 10.0**peers.rank, torch.ones(len(held), dtype=torch.int64)])
    return [total.tolist() for total in luggage.home()]


@pytest.mark.parametrize("world", WORLDS)
def test_sums_come_home_with_something_of_every_rank(world: int) -> None:
    lengths = [2, 3, 0, 4][:world]
    added = sum(10.0**rank for rank in range(world))
    for rank, (total, count) in enumerate(run(world, _sums, lengths)):
        assert total == [world * n + added for n in range(lengths[rank])]
        assert count == [world] * lengths[rank]


def _overlapping() -> Any:
    """Two exchanges under way at once keep apart, and what was given may be let go."""
    peers = Peers.of()
    first = pass_on(peers, [torch.full((4,), float(peers.rank))], 0, 4)
    second = pass_on(peers, [torch.full((2,), 10.0 + peers.rank)], 0, 2)
    later = second.wait()[0].tolist() if peers.rank else None
    return first.wait()[0].tolist(), later or second.wait()[0].tolist()


def test_exchanges_do_not_get_mixed_up() -> None:
    assert run(3, _overlapping) == [
        ([2.0] * 4, [12.0] * 2), ([0.0] * 4, [10.0] * 2), ([1.0] * 4, [11.0] * 2),
    ]  # fmt: skip


def _not_contiguous() -> list[list[float]]:
    peers = Peers.of()
    given = torch.arange(6.0).reshape(2, 3).T + 10 * peers.rank
    return pass_on(peers, [given], 0, 3).wait()[0].tolist()


def test_views_travel_by_their_values() -> None:
    first, second = run(2, _not_contiguous)
    assert first == [[10, 13], [11, 14], [12, 15]]
    assert second == [[0, 3], [1, 4], [2, 5]]


def _given_up() -> list[int]:
    """All ranks stop at the first shard; the next tour must not meet what was under way."""
    peers = Peers.of()
    first, second = torch.zeros(3), torch.full((3,), float(peers.rank))
    lengths = [3] * peers.world
    with closing(around(peers, [first], lengths, axis=0)) as tour:
        for _ in tour:
            break
    return [int(held[0][0]) for _, held in around(peers, [second], lengths, axis=0)]


def test_a_tour_that_was_given_up_leaves_nothing_behind() -> None:
    assert run(3, _given_up) == [[0, 2, 1], [1, 0, 2], [2, 1, 0]]
