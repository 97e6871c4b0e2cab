"""Who holds which tokens: every token once, in an order that comes back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.parallel import Piece, Shards
from regard.parallel.prefill import balanced


def test_even_shards_differ_by_one_token_at_most() -> None:
    assert Shards.even(10, 3).pieces == (((0, 4),), ((4, 7),), ((7, 10),))
    assert Shards.even(2, 3).lengths == (1, 1, 0)
    assert Shards.even(0, 2).tokens == 0


def test_zigzag_shards_have_an_early_and_a_late_piece() -> None:
    assert Shards.zigzag(12, 3).pieces == (((0, 2), (10, 12)), ((2, 4), (8, 10)), ((4, 8),))
    assert Shards.zigzag(5, 1).pieces == (((0, 5),),)  # neighbours are one piece


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
def test_zigzag_balances_a_causal_mask(world: int) -> None:
    shards = Shards.zigzag(32 * world, world)
    work = [int((shards.positions(rank) + 1).sum()) for rank in range(world)]
    assert max(work) == min(work)


@pytest.mark.parametrize("tokens", [0, 1, 5, 64, 101])
@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_parts_join_to_the_whole(tokens: int, world: int) -> None:
    whole = torch.randn(2, tokens, 3)
    for shards in (Shards.even(tokens, world), Shards.zigzag(tokens, world)):
        parts = [shards.take(whole, rank) for rank in range(world)]
        assert tuple(part.shape[-2] for part in parts) == shards.lengths
        assert torch.equal(shards.join(parts), whole)
        turned = [shards.take(whole.mT, rank, dim=-1) for rank in range(world)]
        assert torch.equal(shards.join(turned, dim=-1), whole.mT)
        for rank, part in enumerate(parts):
            assert torch.equal(part, whole[:, shards.positions(rank)])
            for piece, at in shards.local(rank):
                assert torch.equal(part[:, at], whole[:, piece.start : piece.stop])
    if tokens and world == 2:  # one piece is taken without a copy
        assert Shards.even(tokens, 2).take(whole, 0).data_ptr() == whole.data_ptr()


def test_equal_shards_are_equal_values() -> None:
    assert Shards.even(9, 3) == Shards.contiguous([3, 3, 3])
    assert hash(Shards.even(9, 3)) == hash(Shards.contiguous([3, 3, 3]))
    assert Shards.even(9, 3) != Shards.zigzag(9, 3)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((((0, 3),), ((4, 6),)), "token 3 is missing"),
        ((((0, 3),), ((2, 6),)), "token 2 is held twice"),
        ((((1, 3),),), "token 0 is missing"),
        ((((3, 1),),), "ends before it starts"),
        ((((0, -1),),), "give a whole number"),
        ((), "at least one rank"),
    ],
)
def test_tokens_missing_or_held_twice_are_refused(pieces: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Shards(pieces)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Shards.even(10, 0),
        lambda: Shards.even(-1, 2),
        lambda: Shards.even(2.5, 2),  # type: ignore[arg-type]
        lambda: Shards.zigzag(10, 0),
        lambda: Shards.contiguous([3, -1]),
        lambda: Shards.contiguous([True]),
    ],
)
def test_counts_are_whole_numbers(make: Any) -> None:
    with pytest.raises(InputError, match="give a whole number"):
        make()


def test_tensors_that_do_not_fit_are_refused() -> None:
    shards = Shards.even(10, 2)
    with pytest.raises(ShapeError, match="has 9 tokens along axis -2, the shards have 10"):
        shards.take(torch.zeros(9, 4), 0)
    with pytest.raises(ShapeError, match=r"parts of \[5, 4\] tokens, the shards have \[5, 5\]"):
        shards.join([torch.zeros(5, 4), torch.zeros(4, 4)])


def test_a_piece_is_cut_where_cells_begin() -> None:
    assert Piece(5, 20).cut(8) == [(5, 8), (8, 20)]
    assert Piece(8, 20).cut(8) == [(8, 20)]
    assert Piece(5, 7).cut(8) == [(5, 7)]


# ── pieces of equal work ─────────────────────────────────────────────────────────────────────


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
