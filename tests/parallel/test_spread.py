"""Heads over ranks."""

from __future__ import annotations

import pytest

from regard.parallel.spread import spread


@pytest.mark.parametrize("world", range(1, 9))
@pytest.mark.parametrize("heads", [(8, 8), (8, 4), (8, 2), (8, 1), (6, 3), (5, 5), (7, 7), (1, 1)])
def test_every_query_head_has_one_rank_and_finds_its_key_head(
    heads: tuple[int, int], world: int
) -> None:
    query_heads, key_heads = heads
    group = query_heads // key_heads
    found = spread(query_heads, key_heads, world)
    assert len(found) == world
    assert [head for rank in found for head in rank.query] == list(range(query_heads))
    for query, key in found:
        assert sorted({head // group for head in query}) == list(key)
        # whole groups, so that grouped heads stay grouped
        assert not key or len(query) % len(key) == 0


def test_as_evenly_as_it_goes() -> None:
    assert [len(rank.query) for rank in spread(8, 8, 3)] == [3, 3, 2]
    assert [len(rank.query) for rank in spread(8, 2, 4)] == [2, 2, 2, 2]
    assert [len(rank.query) for rank in spread(8, 4, 3)] == [4, 2, 2]
    assert [len(rank.query) for rank in spread(2, 2, 4)] == [1, 0, 1, 0]


def test_no_heads_at_all() -> None:
    assert [tuple(map(len, rank)) for rank in spread(0, 0, 2)] == [(0, 0), (0, 0)]
