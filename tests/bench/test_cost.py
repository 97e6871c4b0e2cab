"""The cost model counts what the code really holds and sends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard
from bench.cost import Layer, Machine, hidden_from, merge_share
from regard.parallel import Shards
from regard.parallel.tree import _flat
from regard.state import merge

LAYER = Layer(heads=6, key_heads=3, dim=8, value_dim=4, itemsize=2)
MACHINE = Machine(flops=1e12, link=1e9, memory=1e11)
ROWS = (regard.Entropy(), regard.MaxScore(), regard.Distance())


def inputs(tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((6, tokens, 8), (3, tokens, 8), (3, tokens, 4))
    q, k, v = (torch.randn(1, *shape).bfloat16() for shape in shapes)
    return q, k, v


def partial(tokens: int, *summaries: regard.summary.Summary) -> regard.Partial:
    return regard.attend_partial(*inputs(tokens), summaries=summaries)


# ── bytes ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_bytes_are_those_of_the_tensors(tokens: int) -> None:
    q, k, v = inputs(tokens)
    part = partial(tokens, *ROWS, regard.Top(5))
    parts = LAYER.memory(tokens, top=5, rows=len(ROWS))
    assert LAYER.shard(tokens) == k.nbytes + v.nbytes == parts["k, v"]
    assert parts["k, v of others"] == 2 * parts["k, v"]
    assert parts["q"] == q.nbytes and parts["running output"] == part.out.nbytes
    told = sum(tensor.nbytes for tensor in _flat(part)) - part.out.nbytes
    assert parts["lse and statistics"] == told
    assert LAYER.partial(tokens) == sum(tensor.nbytes for tensor in _flat(partial(tokens)))


def test_gradients_travel_as_exact_sums() -> None:
    _, k, v = inputs(9)
    assert LAYER.shard_backward(9) == k.nbytes + v.nbytes + k.float().nbytes + v.float().nbytes


def test_a_merge_reads_and_writes_seven_times_an_output() -> None:
    """Two products and a sum, each of a block of half the rows."""
    half = partial(8)
    assert merge(half, half).out.nbytes == half.out.nbytes
    assert LAYER.merging(16) == 2 * 7 * half.out.nbytes


def test_what_is_traded() -> None:
    q, k, v = inputs(10)
    back = 6 * 10 * (4 * 2 + 4)
    assert LAYER.trade(10, 3) == (q.nbytes + k.nbytes + v.nbytes + back) * 2 / 3
    assert LAYER.trade(10, 1) == 0
    # more ranks than key heads: each of six has a copy
    assert LAYER.trade(10, 6) == (q.nbytes + 2 * (k.nbytes + v.nbytes) + back) * 5 / 6


def test_heads_are_shared_out_and_key_heads_never_cut() -> None:
    assert LAYER.over_heads(3) == Layer(2, 1, 8, 4, 2)
    assert LAYER.over_heads(6) == Layer(1, 1, 8, 4, 2)


# ── operations ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_zigzag_shards_have_half_of_the_pairs_in_every_step(world: int) -> None:
    shards = Shards.zigzag(16 * world, world)
    for rank in range(world):
        for owner in range(world):
            rows, cols = shards.positions(rank), shards.positions(owner)
            seen = int((cols <= rows[:, None]).sum())
            own = 8 if rank == owner else 0  # a row sees itself: half a diagonal more
            assert seen == 16 * 16 // 2 + own
    assert LAYER.work(16, causal=True) == LAYER.work(16, causal=False) / 2


def test_work_is_two_products() -> None:
    pairs = 6 * 10 * 10
    assert LAYER.work(10, causal=False) == 2 * pairs * 8 + 2 * pairs * 4


@pytest.mark.parametrize("causal", [True, False])
def test_hidden_from_where_message_and_arithmetic_take_as_long(causal: bool) -> None:
    least = hidden_from(LAYER, MACHINE, causal)
    by_hand = LAYER.key_heads / LAYER.heads * LAYER.itemsize * MACHINE.flops / MACHINE.link
    assert least == pytest.approx(by_hand if causal else by_hand / 2)
    tokens = round(least)
    message, arithmetic = LAYER.shard(tokens) / MACHINE.link, LAYER.work(tokens, causal) / 1e12
    assert message == pytest.approx(arithmetic, rel=1e-3)


def test_merging_weighs_less_on_long_shards() -> None:
    square = Layer(6, 3, 8, 8, 2)
    by_hand = 14 * MACHINE.flops / (1000 * MACHINE.memory)
    assert merge_share(square, MACHINE, 1000, True) == pytest.approx(by_hand)
    assert merge_share(square, MACHINE, 2000, True) == pytest.approx(by_hand / 2)
