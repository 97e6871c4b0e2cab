"""Ranks that mean different problems find out before anything travels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.world import WORLDS, run
from regard.errors import InputError, RegardError
from regard.parallel import Peers, Shards
from regard.parallel.agree import agree, contents

TOKENS = 12


def _differing(odd: int, what: str) -> str:
    """The error of a ring in which one rank means something else."""
    rank, world = dist.get_rank(), dist.get_world_size()
    shards, options, heads, dtype = Shards.even(TOKENS, world), {}, 2, torch.float32
    mine: dict[str, Any] = {"mask": regard.Padding([9])}
    if rank == odd:
        if what == "mask values":
            mine = {"mask": regard.Padding([8])}
        elif what == "mask":
            mine = {"mask": regard.Causal()}
        elif what == "scale":
            options = {"scale": 2.0}
        elif what == "dtype":
            dtype = torch.float64
        elif what == "heads":
            heads = 4
        elif what == "summaries":
            options = {"summaries": (regard.Entropy(),)}
    q = torch.zeros(1, heads, shards.lengths[rank], 8, dtype=dtype)
    q.requires_grad_(rank == odd and what == "gradients")
    try:
        regard.parallel.ring(q, q, q, shards=shards, **mine, **options)
    except RegardError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


@pytest.mark.parametrize(
    ("what", "subject"),
    [
        ("mask", "mask"), ("mask values", "mask"), ("scale", "score rule"),
        ("dtype", "shapes and dtypes"), ("heads", "shapes and dtypes"),
        ("summaries", "summaries"), ("gradients", "who needs gradients"),
    ],
)  # fmt: skip
def test_the_rank_that_differs_is_named_on_every_rank(what: str, subject: str) -> None:
    for rank, said in enumerate(run(3, _differing, 1, what)):
        assert f"the ranks disagree on {subject}: rank 1 differs from rank 0" in said
        assert f"rank {rank} has" in said


def test_shards_that_differ() -> None:
    said = run(4, _unlike_shards)
    assert all("the ranks disagree on shards: rank 2 differs from rank 0" in one for one in said)


def _unlike_shards() -> str:
    rank = dist.get_rank()
    shards = Shards.zigzag(16, 4) if rank == 2 else Shards.even(16, 4)
    q = torch.zeros(1, 4, 8)
    try:
        regard.parallel.ring(q, q, q, shards=shards)
    except InputError as error:
        return str(error)
    return "none"


def test_agreement_is_silent() -> None:
    assert run(3, _differing, 1, "nothing") == ["none"] * 3


def _one_is_wrong() -> str:
    """What one rank cannot take is told to the others, so that they do not wait for it."""
    rank = dist.get_rank()
    q = torch.zeros(1, 4, 8)
    mask = regard.Documents(torch.zeros(5 if rank == 1 else 12, dtype=torch.int64))
    try:
        regard.parallel.ring(q, q, q, shards=Shards.even(12, 3), mask=mask)
    except InputError as error:
        return str(error)
    return "none"


def test_an_error_on_one_rank_ends_all() -> None:
    said = run(3, _one_is_wrong)
    assert "5 ids for 12 query tokens" in said[1]
    assert said[0] == said[2]
    assert "rank 1 could not take what was given there" in said[0]


def _alone(world: int) -> list[str]:
    peers, device = Peers.of(), torch.device("cpu")
    agree(peers, {"one": "a", "two": "b"}, device)
    said = []
    rank = dist.get_rank()
    for words in ({"one": "a", "two": str(rank)}, {"one": str(rank == 0), "two": "b"}):
        try:
            agree(peers, words, device)
        except InputError as error:
            said.append(str(error).partition(";")[0])
    return said


@pytest.mark.parametrize("world", WORLDS)
def test_the_majority_is_right_and_ties_go_to_the_first(world: int) -> None:
    others = ", ".join(str(rank) for rank in range(1, world))
    word = "ranks" if world > 2 else "rank"
    differing = f"the ranks disagree on two: {word} {others} differs from rank 0"
    lonely = f"the ranks disagree on one: rank {int(world == 2)} differs from rank "
    lonely += str(1 if world > 2 else 0)
    for said in run(world, _alone, world):
        assert said == ([] if world == 1 else [differing, lonely])


def test_contents_tell_values_apart() -> None:
    a, b = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    assert contents([a]) == contents([a.clone()])
    assert contents([a]) != contents([b])
    assert contents([a]) != contents([a.float()])
    assert contents([torch.tensor(3)]) != contents([torch.tensor(4)])
    assert contents([torch.zeros(0)]) == contents([torch.zeros(0)])
    assert contents([torch.tensor([True, False])]) != contents([torch.tensor([True, True])])
