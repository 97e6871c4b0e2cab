"""Groups, messages, the ring and its collectives; a rank that dies or sticks is named by all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import regard
from parallel.world import WORLDS, run
from regard.errors import DTypeError, InputError, UnavailableError
from regard.parallel import Peers, Shards
from regard.parallel.transport import (
    RingReduceScatter,
    circulate,
    pack,
    reporting_lost_rank,
    shift,
    size_of,
    unpack,
)

PATIENCE = 5.0  # seconds


def test_without_a_process_group_it_says_how_to_get_one() -> None:
    q = torch.randn(1, 4, 8)
    with pytest.raises(UnavailableError, match="init_process_group first, or"):
        regard.parallel.ring(q, q, q, shards=Shards.even(4, 1))


def _neighbours() -> tuple[int, int, int, list[int]]:
    peers = Peers.of()
    return peers.rank, peers.previous, peers.next, [peers.owner(step) for step in range(3)]


def test_neighbours_and_owners() -> None:
    assert run(3, _neighbours) == [
        (0, 2, 1, [0, 2, 1]), (1, 0, 2, [1, 0, 2]), (2, 1, 0, [2, 1, 0]),
    ]  # fmt: skip


def _in_pairs() -> list[bool]:
    """Two rings side by side, of ranks 0, 2 and 1, 3; then the same as a mesh."""
    torch.manual_seed(0)
    whole = torch.randn(3, 2, 12, 8)  # q, k, v
    right = regard.attend(*whole, mask=regard.Causal()).output
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    group = pairs[dist.get_rank() % 2]
    shards = Shards.zigzag(12, 2)
    rank = dist.get_rank(group)
    parts = [shards.take(tensor, rank) for tensor in whole]
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("context", "data"))["context"]
    found = [
        regard.parallel.ring(*parts, shards=shards, group=g, mask=regard.Causal()).output
        for g in (group, mesh)
    ]
    return [torch.allclose(output, shards.take(right, rank), atol=1e-5) for output in found]


def test_a_group_of_some_ranks_and_an_axis_of_a_mesh() -> None:
    assert run(4, _in_pairs) == [[True, True]] * 4


def _wrong() -> list[str]:
    messages = []
    alone = dist.new_group([0])
    mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    for group in ("all", mesh, alone):
        try:
            Peers.of(group)
        except (DTypeError, InputError) as error:
            messages.append(str(error))
    return messages


def test_groups_that_mean_nothing_are_refused() -> None:
    first, second = run(2, _wrong)
    assert first == second[:2]
    assert "group is a str; give a ProcessGroup" in first[0]
    assert "a DeviceMesh of 2 axes; give one of them" in first[1]
    assert "rank 1 is no member of the group" in second[2]


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def test_there_and_back() -> None:
    given = [
        torch.arange(3, dtype=torch.uint8), torch.randn(2, 3, dtype=torch.float64),
        torch.randn(0, 4), torch.randn(3, 2).bfloat16().T, torch.tensor(7),
    ]  # fmt: skip
    kinds, shapes = [t.dtype for t in given], [t.shape for t in given]
    messages = pack(given)
    assert len(messages) == size_of(kinds, shapes) == 3 + 48 + 12 + 8
    # three bytes in, nothing is where a float could begin
    for found, right in zip(unpack(messages, kinds, shapes), given, strict=True):
        assert found.dtype == right.dtype and torch.equal(found, right)
    shifted = torch.cat([messages.new_zeros(5), messages])
    for found, right in zip(unpack(shifted, kinds, shapes, 5), given, strict=True):
        assert torch.equal(found, right)


def test_one_number_travels_whatever_its_stride() -> None:
    column = torch.arange(6.0).reshape(2, 3)[:1, 1:2].squeeze(-1)
    assert column.stride() == (3,) and column.is_contiguous()
    (found,) = unpack(pack([column]), [torch.float32], [(1,)])
    assert found.tolist() == [1.0]


# ── ring ─────────────────────────────────────────────────────────────────────────────────────


def _tour(lengths: list[int]) -> list[tuple[int, list[list[float]]]]:
    rank = dist.get_rank()
    mine = [torch.full((2, lengths[rank]), float(rank)), torch.arange(lengths[rank]).unsqueeze(0)]
    return [
        (owner, [tensor[0].tolist() for tensor in held])
        for owner, held in circulate(Peers.of(), mine, lengths, axis=-1)
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
    totals = RingReduceScatter(peers, lengths, axis=-1)
    mine = torch.arange(lengths[peers.rank], dtype=torch.float64)
    for _, (held,) in circulate(peers, [mine], lengths, axis=-1):
        totals.add([held + 10.0**peers.rank, torch.ones(len(held), dtype=torch.int64)])
    return [total.tolist() for total in totals.result()]


@pytest.mark.parametrize("world", WORLDS)
def test_sums_of_all_ranks_end_at_the_owner(world: int) -> None:
    lengths = [2, 3, 0, 4][:world]
    added = sum(10.0**rank for rank in range(world))
    for rank, (total, count) in enumerate(run(world, _sums, lengths)):
        assert total == [world * n + added for n in range(lengths[rank])]
        assert count == [world] * lengths[rank]


def _overlapping() -> Any:
    """Two exchanges under way at once keep apart, and what was given may be let go."""
    peers = Peers.of()
    first = shift(peers, [torch.full((4,), float(peers.rank))], 0, 4)
    second = shift(peers, [torch.full((2,), 10.0 + peers.rank)], 0, 2)
    later = second.wait()[0].tolist() if peers.rank else None
    return first.wait()[0].tolist(), later or second.wait()[0].tolist()


def test_exchanges_do_not_get_mixed_up() -> None:
    assert run(3, _overlapping) == [
        ([2.0] * 4, [12.0] * 2), ([0.0] * 4, [10.0] * 2), ([1.0] * 4, [11.0] * 2),
    ]  # fmt: skip


def _not_contiguous() -> list[list[float]]:
    peers = Peers.of()
    given = torch.arange(6.0).reshape(2, 3).T + 10 * peers.rank
    return shift(peers, [given], 0, 3).wait()[0].tolist()


def test_views_travel_by_their_values() -> None:
    first, second = run(2, _not_contiguous)
    assert first == [[10, 13], [11, 14], [12, 15]]
    assert second == [[0, 3], [1, 4], [2, 5]]


def _given_up() -> list[int]:
    """All ranks stop at the first shard; the next tour must not meet what was under way."""
    peers = Peers.of()
    first, second = torch.zeros(3), torch.full((3,), float(peers.rank))
    lengths = [3] * peers.world
    with closing(circulate(peers, [first], lengths, axis=0)) as tour:
        for _ in tour:
            break
    return [int(held[0][0]) for _, held in circulate(peers, [second], lengths, axis=0)]


def test_a_tour_that_was_given_up_leaves_nothing_behind() -> None:
    assert run(3, _given_up) == [[0, 2, 1], [1, 0, 2], [2, 1, 0]]


# ── a lost rank ──────────────────────────────────────────────────────────────────────────────


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
    except UnavailableError as error:
        return str(error), list(error.reasons)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stick() -> None:
    time.sleep(60)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("world", "lost"), [(2, 1), (4, 2), (3, 0)])
def test_a_dead_rank_is_named_by_all_others(world: int, lost: int, backward: bool) -> None:
    results = run(world, _long_ring, lost, _die, backward, dying=[lost], patience=PATIENCE)
    for rank, messages in enumerate(results):
        if rank != lost:
            assert messages[1] == [f"rank {lost}"], messages
            assert f"rank {rank} of {world} gave up in the ring: rank {lost} is lost" in messages[0]


def test_a_rank_that_sticks_is_named_after_the_timeout() -> None:
    messages = run(3, _stuck_ring, 1, disturbed=True, patience=PATIENCE)
    assert messages[0][1] == messages[2][1] == ["rank 1"], messages


def _stuck_ring(lost: int) -> tuple[str, list[str]]:
    def stick() -> None:
        time.sleep(3 * PATIENCE + 6)  # longer than every other rank waits, however busy
        raise UnavailableError("woke up")

    return _long_ring(lost, stick, False)


def _cut_wire(store_is_down: bool) -> str:
    down = patch.object(
        distributed_c10d, "_get_process_group_store", side_effect=RuntimeError("down")
    )
    try:
        with (
            down if store_is_down else nullcontext(),
            reporting_lost_rank(Peers.of(), None, "counting"),
        ):
            raise RuntimeError("the wire is cut\nsomewhere")
    except UnavailableError as error:
        return str(error)


def test_where_nothing_can_be_found_out_it_says_some_rank() -> None:
    (message,) = run(1, _cut_wire, True)
    assert "gave up counting: some rank is lost" in message
    assert "some rank: the wire is cut" in message


def test_where_all_ranks_left_a_note_none_is_called_lost() -> None:
    for rank, message in enumerate(run(2, _cut_wire, False)):
        assert f"rank {rank} of 2 gave up counting: no rank is lost, all gave up" in message
        assert f"rank {rank}: the wire is cut" in message


def _out_of_step() -> str:
    """One rank asks first, the others run the backward first, and the ranks do not compare."""
    world = dist.get_world_size()
    q, k, v = (torch.randn(2, 4, 8, requires_grad=True) for _ in range(3))
    a = regard.parallel.ring(q, k, v, shards=Shards.even(4 * world, world))
    try:
        if dist.get_rank() == 0:
            a.entropy()
        a.output.sum().backward()
    except UnavailableError as error:
        return str(error)
    return "taken"


def test_ranks_out_of_step_get_an_error() -> None:
    results = run(3, _out_of_step, disturbed=True, patience=PATIENCE)
    assert all(
        "They are not in step: every rank must ask the same" in message for message in results
    ), results


def _all_but_one(lost: int) -> list[str]:
    try:
        with reporting_lost_rank(Peers.of(), None, "adding up"):
            if dist.get_rank() == lost:
                _die()
            dist.all_reduce(torch.ones(1))
    except UnavailableError as error:
        return list(error.reasons)
    return []


def test_in_a_collective_the_silent_rank_is_named() -> None:
    results = run(2, _all_but_one, 1, dying=[1], patience=PATIENCE)
    assert results[0] == ["rank 1"]
