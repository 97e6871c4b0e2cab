"""ring(): what it takes and what it refuses, on every rank alike."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import case_named, my_part, shards_of
from parallel.world import run
from regard.engine.observers import editing
from regard.errors import RegardError
from regard.parallel import Shards


def _refused(what: str) -> str:
    rank, world = dist.get_rank(), dist.get_world_size()
    shards: Any = Shards.even(8, world)
    q: Any = torch.zeros(2, shards.lengths[rank], 4)
    k: Any = q.clone()
    options: dict[str, Any] = {}
    if what == "tokens":
        k = torch.zeros(2, 5, 4)
    elif what == "no shards":
        shards = 8
    elif what == "other world":
        shards = Shards.even(8, world + 1)
    elif what == "two axes":
        q = torch.zeros(4, 4)
    elif what == "numbers":
        q, k = q.long(), k.long()
    elif what == "mask":
        options["mask"] = torch.ones(3, 3, dtype=torch.bool)
    elif what == "summary":
        options["summaries"] = ("entropy",)
    elif what == "implementation":
        options["implementation"] = "magic"
    hand = editing(object()) if what == "knock out" else nullcontext()  # type: ignore[arg-type]
    try:
        with hand:
            regard.parallel.ring(q, k, k, shards=shards, **options)
    except RegardError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("tokens", "key (2, 5, 4) has 5 tokens, the shard of rank 0 has 4"),
        ("no shards", "shards is a int; give e.g. regard.parallel.Shards.even(tokens, 2)"),
        ("other world", "shards are of 3 ranks, the group has 2"),
        ("two axes", "give a tensor (…, heads, tokens, dim)"),
        ("numbers", "query has dtype int64"),
        ("mask", "does not broadcast"),
        ("summary", "'entropy' is not a summary"),
        ("implementation", "'magic' does not exist"),
        ("knock out", "regard.knock_out"),
    ],
)
def test_what_is_refused(what: str, said: str) -> None:
    told = run(2, _refused, what)
    assert said in told[0], told
    assert "taken" not in told


def _by_name(implementation: str) -> torch.Tensor:
    inputs = case_named("causal").inputs(torch.float64)
    shards = shards_of("zigzag", 61, dist.get_world_size())
    parts = my_part(inputs, shards)
    a = regard.parallel.ring(*parts, shards=shards, implementation=implementation, **inputs.options)
    return a.output + a.entropy()[..., None]


def test_every_implementation_computes_the_same() -> None:
    told = [torch.cat(run(2, _by_name, name), -2) for name in ("cpu", "tiled", "dense")]
    torch.testing.assert_close(told[0], told[1])
    torch.testing.assert_close(told[0], told[2])


def _autocast() -> tuple[torch.dtype, torch.dtype, bool]:
    shards = Shards.even(8, dist.get_world_size())
    torch.manual_seed(dist.get_rank())
    q = torch.randn(2, shards.lengths[dist.get_rank()], 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = regard.parallel.ring(q, q, q, shards=shards)
    low = q.bfloat16()
    b = regard.parallel.ring(low, low, low, shards=shards)
    return a.output.dtype, a.lse.dtype, torch.equal(a.received(), b.received())


def test_autocast_casts_before_anything_travels() -> None:
    assert run(2, _autocast) == [(torch.bfloat16, torch.float32, True)] * 2


def _unchecked() -> torch.Tensor:
    shards = Shards.even(8, dist.get_world_size())
    q = torch.arange(8 * 4.0).reshape(1, 8, 4)
    mine = shards.take(q, dist.get_rank())
    return regard.parallel.ring(mine, mine, mine, shards=shards, check=False).output


def test_without_the_check_it_is_the_same() -> None:
    q = torch.arange(8 * 4.0).reshape(1, 8, 4)
    found = torch.cat(run(2, _unchecked), -2)
    torch.testing.assert_close(found, regard.attend(q, q, q).output)
