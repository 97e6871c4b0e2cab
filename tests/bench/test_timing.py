"""Turns are fair: every contender runs once a round, and ratios are taken within rounds."""

from __future__ import annotations

from functools import partial

from regard.bench.timing import Samples, take_turns, wall_clock


def test_contenders_take_turns() -> None:
    order: list[str] = []
    names = ("a", "b", "c")
    taken = take_turns({name: partial(order.append, name) for name in names}, seconds=0, rounds=12)
    rounds = [tuple(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert len(rounds) == 13, "one round of warming up"
    assert all(sorted(one) == sorted(names) for one in rounds)
    assert {one[0] for one in rounds[1:]} == set(names), "everybody is first at times"
    assert list(taken) == list(names) and {len(s.seconds) for s in taken.values()} == {12}


def test_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # a busy spell in the second round hits both
    mine, peer = Samples([2.0, 20.0, 2.2]), Samples([1.0, 10.0, 1.0])
    assert mine.ratio_to(peer) == 2.0


def test_percentiles() -> None:
    samples = Samples([float(n) for n in range(11)])
    assert samples.median == 5
    assert samples.percentiles() == (2.0, 8.0)
    assert Samples([3.0]).percentiles() == (3.0, 3.0)


def test_a_clock_of_ones_own_and_contenders_that_are_warm() -> None:
    heard: list[str] = []
    taken = take_turns(
        {"a": lambda: heard.append("a")}, seconds=0, rounds=2, clock=lambda run: 7.0, warm=False
    )
    assert taken["a"].seconds == [7.0, 7.0]
    assert heard == [], "the clock decides whether it calls"


def test_the_wall_clock_waits_for_the_call() -> None:
    done: list[int] = []
    assert wall_clock(lambda: done.append(1)) >= 0
    assert done == [1]
