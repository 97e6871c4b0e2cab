"""Messages, the ring and its collectives; a rank that dies or sticks is named by all others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import regard
from parallel.sequences import refusal
from parallel.world import WORLDS, run
from regard.errors import InputError, ShapeError, UnavailableError
from regard.parallel import Peers, Shards
from regard.parallel.prefill import Before
from regard.parallel.transport import (
    RingReduceScatter,
    circulate,
    pack,
    reporting_lost_rank,
    shift,
    size_of,
    unpack,
)

# ── messages ─────────────────────────────────────────────────────────────────────────────────


def test_there_and_back() -> None:
    given = [
        torch.arange(3, dtype=torch.uint8), torch.randn(2, 3, dtype=torch.float64),
        torch.randn(0, 4), torch.randn(3, 2).bfloat16().T, torch.tensor(7),
        torch.arange(6.0).reshape(2, 3)[:1, 1:2].squeeze(-1),  # contiguous, and of stride 3
    ]  # fmt: skip
    kinds, shapes = [t.dtype for t in given], [t.shape for t in given]
    messages = pack(given)
    assert len(messages) == size_of(kinds, shapes) == 3 + 48 + 12 + 8 + 4
    # three bytes in, nothing is where a float could begin
    shifted = torch.cat([messages.new_zeros(5), messages])
    for arrived in (unpack(messages, kinds, shapes), unpack(shifted, kinds, shapes, 5)):
        for mine, right in zip(arrived, given, strict=True):
            assert mine.dtype == right.dtype and torch.equal(mine, right)


def _overlapping() -> tuple[Any, ...]:
    """Two exchanges under way at once keep apart, and what was given may be let go; views travel by
    their values."""
    peers = Peers.of()
    first = shift(peers, [torch.full((4,), float(peers.rank))], 0, 4)
    second = shift(peers, [torch.arange(6.0).reshape(2, 3).T + 10 * peers.rank], 0, 3)
    later = second.wait()[0].tolist() if peers.rank else None
    owners = [peers.owner(step) for step in range(3)]
    neighbours = (peers.rank, peers.previous, peers.next, owners)
    return neighbours, first.wait()[0].tolist(), later or second.wait()[0].tolist()


def test_exchanges_with_neighbours_do_not_get_mixed_up() -> None:
    for rank, (neighbours, first, second) in enumerate(run(3, _overlapping)):
        before = (rank - 1) % 3
        owners = [rank, before, (rank - 2) % 3]
        assert neighbours == (rank, before, (rank + 1) % 3, owners)
        assert first == [float(before)] * 4
        assert second == [[10 * before + n, 10 * before + n + 3] for n in range(3)]


# ── ring ─────────────────────────────────────────────────────────────────────────────────────


def _tour(lengths: list[int]) -> list[tuple[int, list[list[float]]]]:
    rank = dist.get_rank()
    mine = [torch.full((2, lengths[rank]), float(rank)), torch.arange(lengths[rank]).unsqueeze(0)]
    return [
        (owner, [tensor[0].tolist() for tensor in held])
        for owner, held in circulate(Peers.of(), mine, lengths, axis=-1)
    ]


def _sums(lengths: list[int]) -> list[list[float]]:
    """Each rank adds 10^rank to every token it meets, and counts them."""
    peers = Peers.of()
    totals = RingReduceScatter(peers, lengths, axis=-1)
    mine = torch.arange(lengths[peers.rank], dtype=torch.float64)
    for _, (held,) in circulate(peers, [mine], lengths, axis=-1):
        totals.add([held + 10.0**peers.rank, torch.ones(len(held), dtype=torch.int64)])
    return [total.tolist() for total in totals.result()]


@pytest.mark.parametrize("world", WORLDS)
def test_every_shard_passes_every_rank_and_sums_end_at_the_owner(world: int) -> None:
    """One's own first."""
    lengths = [3, 0, 5, 1][:world]
    added = sum(10.0**rank for rank in range(world))
    for rank, met in enumerate(run(world, _tour, lengths)):
        assert [owner for owner, _ in met] == [(rank - step) % world for step in range(world)]
        for owner, held in met:
            assert held == [[float(owner)] * lengths[owner], list(range(lengths[owner]))]
    for rank, (total, count) in enumerate(run(world, _sums, lengths)):
        assert total == [world * n + added for n in range(lengths[rank])]
        assert count == [world] * lengths[rank]


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


# ── keys of the ranks before ─────────────────────────────────────────────────────────────────


def _fetch(lengths: list[int]) -> None:
    before = Before(Shards.contiguous(lengths))
    whole = [torch.arange(2 * sum(lengths) * d).reshape(2, -1, d).float() for d in (3, 5)]
    piece, end = before.piece, sum(lengths[: dist.get_rank() + 1])
    joined = before.joined([t[:, piece.start : piece.stop] for t in whole])
    assert all(torch.equal(mine, t[:, :end]) for mine, t in zip(joined, whole, strict=True))


@pytest.mark.parametrize("lengths", [[7], [3, 5], [4, 1, 6], [2, 0, 5, 3]], ids=len)
def test_each_rank_gets_all_tokens_up_to_its_own(lengths: list[int]) -> None:
    run(len(lengths), _fetch, lengths)


def _mistakes() -> None:
    rank = dist.get_rank()
    wrong = {"3 ranks, the group has 2": Shards.even(8, 3), "one piece per": Shards.zigzag(8, 2)}
    for words, shards in wrong.items():
        with pytest.raises(InputError, match=words):
            Before(shards)
    with pytest.raises(ShapeError, match=f"has 3 tokens, the piece of rank {rank} has 4"):
        Before(Shards.even(8, 2)).joined([torch.zeros(1, 3, 4)])


def test_pieces_that_do_not_fit_are_refused() -> None:
    run(2, _mistakes)


# ── a lost rank ──────────────────────────────────────────────────────────────────────────────

PATIENCE = 2.0  # seconds after which a rank gives up on another


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _by_ring(how: Callable[[], None], lost: int, after: int) -> None:
    """One rank gets lost at the block that comes after so many."""
    seen: list[int] = []

    def mask(i: Any, j: Any) -> Any:
        seen.append(len(seen))
        if len(seen) > after and dist.get_rank() == lost:
            how()
        return i >= j

    world = dist.get_world_size()
    q, k, v = (torch.randn(2, 8, 8, requires_grad=True) for _ in range(3))
    shards = Shards.even(8 * world, world)
    a = regard.parallel.ring(q, k, v, shards=shards, mask=regard.Rule(mask))
    while True:
        a.output.sum().backward(retain_graph=True)


def _in_forward(how: Callable[[], None], lost: int) -> None:
    _by_ring(how, lost, 2)


def _in_backward(how: Callable[[], None], lost: int) -> None:
    _by_ring(how, lost, 8)


def _by_tree(how: Callable[[], None], lost: int) -> None:
    world, part = dist.get_world_size(), torch.randn(2, 4, 8)
    if dist.get_rank() == lost:
        how()
    shards = Shards.even(4 * world, world)
    regard.parallel.tree(part[:, :1], part, part, shards=shards, check=False)


def _by_ulysses(how: Callable[[], None], lost: int) -> None:
    world, part = dist.get_world_size(), torch.randn(2, 4, 8)
    if dist.get_rank() == lost:
        how()
    regard.parallel.ulysses(part, part, part, shards=Shards.even(4 * world, world), check=False)


def _by_prefill(how: Callable[[], None], lost: int) -> None:
    before = Before(Shards.even(2 * dist.get_world_size(), dist.get_world_size()))
    if dist.get_rank() == lost:
        how()
    for _ in range(3):  # what was sent before the end may still arrive
        before.joined([torch.zeros(before.piece.length, 4)])


WAYS = {
    "forward": _in_forward, "backward": _in_backward, "tree": _by_tree, "ulysses": _by_ulysses,
    "prefill": _by_prefill,
}  # fmt: skip


def _losing(way: str, how: Callable[[], None], lost: int) -> tuple[str, list[str]]:
    try:
        WAYS[way](how, lost)
    except UnavailableError as error:
        return str(error), list(error.reasons)
    raise AssertionError("no rank was missed")


@pytest.mark.parametrize(
    ("way", "world", "lost"),
    [
        ("backward", 4, 2), ("forward", 3, 0), ("tree", 3, 2), ("prefill", 3, 1),
        *(
            pytest.param(*case, marks=pytest.mark.rest)
            for case in (("forward", 2, 1), ("forward", 4, 2), ("backward", 2, 1),
                         ("backward", 3, 0), ("ulysses", 3, 1))
        ),
    ],
)  # fmt: skip
def test_a_dead_rank_is_named_by_all_others(way: str, world: int, lost: int) -> None:
    patience = 5.0 if way == "backward" else PATIENCE
    results = run(world, _losing, way, _die, lost, dying=[lost], patience=patience)
    for rank, answer in enumerate(results):
        if rank != lost:
            message, reasons = answer
            assert reasons == [f"rank {lost}"], answer
            assert f"rank {rank} of {world} gave up" in message
            assert f"rank {lost} is lost" in message


def _stuck(lost: int) -> list[str]:
    """A rank that comes back only when all others have given up on it."""
    store, rank = distributed_c10d._get_default_store(), dist.get_rank()
    others = [f"gave up/{n}" for n in range(dist.get_world_size()) if n != lost]

    def stick() -> None:
        while not store.check(others):
            time.sleep(0.1)
        raise UnavailableError("woke up")

    _, reasons = _losing("forward", stick, lost)
    if rank != lost:
        store.set(f"gave up/{rank}", "")
    return reasons


def test_a_rank_that_sticks_is_named_after_the_timeout() -> None:
    reasons = run(3, _stuck, 1, disturbed=True, patience=PATIENCE)
    assert reasons[0] == reasons[2] == ["rank 1"]


def _cut_wire() -> str:
    with (
        pytest.raises(UnavailableError) as caught,
        reporting_lost_rank(Peers.of(), None, "counting"),
    ):
        raise RuntimeError("the wire is cut\nsomewhere")
    return str(caught.value)


def test_where_all_ranks_left_a_note_none_is_called_lost() -> None:
    for rank, message in enumerate(run(2, _cut_wire)):
        assert f"rank {rank} of 2 gave up counting: no rank is lost, all gave up" in message
        assert f"rank {rank}: the wire is cut" in message


def _out_of_step() -> str:
    """One rank asks first, the others run the backward first, and the ranks do not compare."""
    world = dist.get_world_size()
    q, k, v = (torch.randn(2, 4, 8, requires_grad=True) for _ in range(3))
    a = regard.parallel.ring(q, k, v, shards=Shards.even(4 * world, world))
    first = a.entropy if dist.get_rank() == 0 else (lambda: None)
    return refusal(lambda: (first(), a.output.sum().backward()))


def test_ranks_out_of_step_get_an_error() -> None:
    messages = run(3, _out_of_step, disturbed=True, patience=PATIENCE)
    words = "They are not in step: every rank must ask the same"
    assert all(words in message for message in messages), messages
