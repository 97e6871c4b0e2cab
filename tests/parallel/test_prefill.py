"""Keys of the ranks before, and pieces of equal work."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from parallel.world import WORLDS, run
from regard.errors import InputError, ShapeError, UnavailableError
from regard.parallel.prefill import Before, balanced
from regard.parallel.shards import Shards

LENGTHS = {1: [7], 2: [3, 5], 3: [4, 1, 6], 4: [2, 0, 5, 3]}


def fetch(lengths: list[int]) -> list[torch.Tensor]:
    before = Before(Shards.contiguous(lengths))
    whole = [torch.arange(2 * sum(lengths) * d).reshape(2, -1, d).float() for d in (3, 5)]
    piece = before.piece
    return before.joined([t[:, piece.start : piece.stop] for t in whole])


@pytest.mark.parametrize("size", WORLDS)
def test_each_rank_gets_all_tokens_up_to_its_own(size: int) -> None:
    lengths = LENGTHS[size]
    for rank, found in enumerate(run(size, fetch, lengths)):
        end = sum(lengths[: rank + 1])
        for tensor, d in zip(found, (3, 5), strict=True):
            whole = torch.arange(2 * sum(lengths) * d).reshape(2, -1, d).float()
            torch.testing.assert_close(tensor, whole[:, :end], rtol=0, atol=0)


def mistakes() -> list[str]:
    said = []
    for shards in (Shards.even(8, 3), Shards.zigzag(8, 2)):
        with pytest.raises(InputError) as error:
            Before(shards)
        said.append(str(error.value))
    with pytest.raises(ShapeError) as short:
        Before(Shards.even(8, 2)).joined([torch.zeros(1, 3, 4)])
    return [*said, str(short.value)]


def test_what_does_not_fit_is_said() -> None:
    for rank, (world, pieces, shape) in enumerate(run(2, mistakes)):
        assert "3 ranks, the group has 2" in world
        assert "one piece per rank" in pieces
        assert f"has 3 tokens, the piece of rank {rank} has 4" in shape


def lose_one() -> str:
    before = Before(Shards.even(6, 3))
    if dist.get_rank() == 1:
        os._exit(9)
    with pytest.raises(UnavailableError) as error:
        for _ in range(3):  # what was sent before the end may still arrive
            before.joined([torch.zeros(before.piece.length, 4)])
    return str(error.value)


def test_a_lost_rank_is_named() -> None:
    first, _, last = run(3, lose_one, dying=[1], patience=10.0)
    assert "rank 1 is lost" in first and "reading the prompt" in first
    assert "rank 1 is lost" in last


@given(
    tokens=st.integers(1, 5000),
    world=st.integers(1, 8),
    linear=st.floats(0, 1e9),
    quadratic=st.floats(1e-3, 1e6),
    align=st.sampled_from([1, 2, 16, 64]),
)
def test_borders_are_aligned_and_nothing_is_lost(
    tokens: int, world: int, linear: float, quadratic: float, align: int
) -> None:
    shards = balanced(tokens, world, linear, quadratic, align)
    assert shards.tokens == tokens and shards.world == world
    ends = [sum(shards.lengths[: n + 1]) for n in range(world)]
    assert all(end % align == 0 or end == tokens for end in ends)


@pytest.mark.parametrize(("linear", "quadratic"), [(1.0, 0.0), (0.0, 1.0), (5e3, 2.0)])
def test_all_ranks_have_the_same_work(linear: float, quadratic: float) -> None:
    shards = balanced(100_000, 4, linear, quadratic)
    ends = torch.tensor([0, *shards.lengths]).cumsum(0).double()
    work = (linear * ends + quadratic * ends**2 / 2).diff()
    assert work.max() / work.min() < 1.001
