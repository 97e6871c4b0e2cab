"""Who takes part: a process group, a mesh of one axis, or everybody."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.world import run
from regard.errors import DTypeError, InputError, UnavailableError
from regard.parallel import Peers, Shards


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
    said = []
    alone = dist.new_group([0])
    mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    for group in ("everybody", mesh, alone):
        try:
            Peers.of(group)
        except (DTypeError, InputError) as error:
            said.append(str(error))
    return said


def test_groups_that_mean_nothing_are_refused() -> None:
    first, second = run(2, _wrong)
    assert first == second[:2]
    assert "group is a str; give a ProcessGroup" in first[0]
    assert "a DeviceMesh of 2 axes; give one of them" in first[1]
    assert "rank 1 is no member of the group" in second[2]
