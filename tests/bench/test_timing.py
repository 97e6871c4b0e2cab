"""Turns are fair: every contender runs once a round, and ratios are taken within rounds."""

from __future__ import annotations

from regard.bench.timing import Samples, take_turns


def test_contenders_take_turns() -> None:
    order: list[str] = []
    taken = take_turns(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0, rounds=4
    )
    assert order == ["a", "b"] * 5  # one round of warming up
    assert len(taken["a"].seconds) == len(taken["b"].seconds) == 4


def test_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # a busy spell in the second round hits both
    mine, peer = Samples([2.0, 20.0, 2.2]), Samples([1.0, 10.0, 1.0])
    assert mine.ratio_to(peer) == 2.0


def test_percentiles() -> None:
    samples = Samples([float(n) for n in range(11)])
    assert samples.median == 5
    assert samples.percentiles() == (2.0, 8.0)
    assert Samples([3.0]).percentiles() == (3.0, 3.0)
