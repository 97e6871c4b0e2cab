"""What a ring sends, what it keeps, what an answer of one rank says of itself; and the
same of Ulysses, which trades tokens for heads."""

from __future__ import annotations

import importlib
import weakref
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import TOKENS, attention, case_named, my_part, shards_of
from parallel.world import run
from regard.engine.observers import Request, listening
from regard.parallel import Shards, problem, ulysses
from regard.parallel.ulysses import split_heads

each_way = pytest.mark.parametrize("way", ["ring", "ulysses"])


# ── what travels ─────────────────────────────────────────────────────────────────────────────


def _blocks(kind: str) -> int:
    """How many blocks this rank computes under a causal mask."""
    shards = Shards.even(32, 4) if kind == "even" else Shards.zigzag(32, 4)
    q = torch.randn(1, 8, 4)
    with patch.object(problem, "attend_partial", wraps=problem.attend_partial) as counted:
        regard.parallel.ring(q, q, q, shards=shards, mask=regard.Causal())
    return sum(call.args[0].shape[-2] > 0 for call in counted.call_args_list)


def test_hidden_blocks_are_left_out_and_zigzag_shares_the_work() -> None:
    assert run(4, _blocks, "even") == [1, 2, 3, 4]
    # two pieces of four tokens each; those of the last rank are neighbours, hence one of eight
    assert run(4, _blocks, "zigzag") == [8, 8, 8, 4]


def _sent() -> list[tuple[int, ...]]:
    sent: list[tuple[int, ...]] = []
    real = dist.batch_isend_irecv

    def spy(ops: list[dist.P2POp]) -> Any:
        sent.extend(tuple(op.tensor.shape) for op in ops if op.op is dist.isend)
        return real(ops)

    with patch.object(dist, "batch_isend_irecv", spy):
        attention("ring", "one key head", torch.float32, "even", check=False)
    return sent


def test_only_key_heads_travel() -> None:
    assert run(2, _sent) == [[(2, 1, 31, 16)] * 2, [(2, 1, 30, 16)] * 2]


def _trips() -> list[int]:
    """How often tensors were passed on, after each question."""
    a, _ = attention("ring", "causal", torch.float32, "even", summaries=(regard.Top(5),),
                     check=False)  # fmt: skip
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
        assert 0 < count[3] == count[4] < count[5] < count[6]
        assert count[6] == count[7] == count[8] == count[9]


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


def _in_pairs() -> None:
    """Two rings side by side, of ranks 0, 2 and 1, 3; then the same as a mesh."""
    torch.manual_seed(0)
    whole = torch.randn(3, 2, 12, 8)  # q, k, v
    right = regard.attend(*whole, mask=regard.Causal()).output
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    group = pairs[dist.get_rank() % 2]
    shards, rank = Shards.zigzag(12, 2), dist.get_rank(group)
    parts = [shards.take(tensor, rank) for tensor in whole]
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("context", "data"))["context"]
    for of in (group, mesh):
        a = regard.parallel.ring(*parts, shards=shards, group=of, mask=regard.Causal())
        torch.testing.assert_close(a.output, shards.take(right, rank))


def test_a_group_of_some_ranks_and_an_axis_of_a_mesh() -> None:
    run(4, _in_pairs)


# ── what an answer is ────────────────────────────────────────────────────────────────────────


def _description(way: str) -> None:
    a, _ = attention(way, "sink", torch.float32, summaries=(regard.Entropy(), regard.Top(2)))
    rank, shards = dist.get_rank(), Shards.zigzag(TOKENS, 2)
    assert a.shape == (2, 4, shards.lengths[rank], TOKENS)
    assert torch.equal(a.positions, shards.positions(rank))
    assert a.rank == rank and a.shards == shards
    assert a.lse.dtype == a.output.dtype == torch.float32
    assert f"rank {rank} of 2" in repr(a) and "mask=" in repr(a)
    if rank == 0:  # what was asked beforehand is known: no other rank asks
        a.entropy(), a.summarize(regard.Top(2))
    dist.barrier()
    assert not attention(way, "plain")[0].sink_mass().any()


@each_way
def test_it_says_what_it_is(way: str) -> None:
    run(2, _description, way)


def _lives(way: str) -> None:
    """Neither the graph nor the caches hold the answers' object back; values, which no question
    needs, are let go."""
    a, (_, _, value) = attention(way, "everything", torch.float32, gradients=True)
    assert not any(kept is value for kept in vars(a).values())
    kept, held = a.output, weakref.ref(a)
    a.received(), a.entropy()
    del a
    assert held() is None
    kept.sum().backward()


@each_way
def test_what_is_kept(way: str) -> None:
    run(2, _lives, way)


@pytest.mark.parametrize("name", ["ring", "tree", "ulysses"])
def test_functions_are_not_hidden_by_the_modules_of_their_names(name: str) -> None:
    module = importlib.import_module(f"regard.parallel.{name}")
    assert getattr(regard.parallel, name) is getattr(module, name)
    assert {"parallel", "nn"} <= set(dir(regard))  # loaded on first use


# ── tokens for heads ─────────────────────────────────────────────────────────────────────────


def _in_low_precision(dtype: torch.dtype) -> None:
    inputs = case_named("causal").inputs(dtype)
    shards = shards_of("zigzag", TOKENS, dist.get_world_size())
    a = ulysses(*my_part(inputs, shards), shards=shards, **inputs.options)
    right = regard.attend(inputs.query, inputs.key, inputs.value, **inputs.options)
    assert a.output.dtype == dtype and a.lse.dtype == torch.float32
    assert torch.equal(a.output, shards.take(right.output, a.rank, -2))
    assert torch.equal(a.lse, shards.take(right.lse, a.rank, -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_bits_of_ulysses_are_those_of_one_rank(dtype: torch.dtype) -> None:
    run(3, _in_low_precision, dtype)


class _Listener:
    heads = 0

    def wants(self, call: Any) -> Request[None]:
        return Request()

    def heard(self, attention: Any, request: Request[None]) -> None:
        self.heads += 1


def _observed() -> int:
    listener = _Listener()
    with listening(listener):
        attention("ulysses", "causal")
    return listener.heads


def test_heads_of_one_rank_are_not_observed() -> None:
    assert run(2, _observed) == [0, 0]


def test_heads_are_split_as_evenly_as_it_goes() -> None:
    for heads, right in (
        ((8, 8, 3), [3, 3, 2]), ((8, 2, 4), [2, 2, 2, 2]), ((8, 4, 3), [4, 2, 2]),
        ((2, 2, 4), [1, 0, 1, 0]),
    ):  # fmt: skip
        assert [len(rank.query) for rank in split_heads(*heads)] == right
