"""Taking turns: every contender once per round, so that a busy machine is busy for all.

Each round has an order of its own. A GPU lowers its clock when it gets hot and takes a while to
raise it again, so in one order for all rounds who comes after whom would be part of the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import median, quantiles

Clock = Callable[[Callable[[], object]], float]  # the seconds of one call


@dataclass(frozen=True)
class Samples:
    """Seconds of each round."""

    seconds: list[float]

    @property
    def median(self) -> float:
        """The middle round."""
        return median(self.seconds)

    def percentiles(self) -> tuple[float, float]:
        """The 20th and the 80th."""
        if len(self.seconds) < 2:
            return self.median, self.median
        fifths = quantiles(self.seconds, n=5, method="inclusive")
        return fifths[0], fifths[-1]

    def ratio_to(self, peer: Samples) -> float:
        """The median of the rounds' own ratios: what both met in one round cancels."""
        return median(
            mine / theirs for mine, theirs in zip(self.seconds, peer.seconds, strict=True)
        )


def wall_clock(run: Callable[[], object]) -> float:
    """By the clock on the wall: what runs when a call returns is over."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def take_turns(
    contenders: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 2.0,
    rounds: int = 5,
    clock: Clock = wall_clock,
    warm: bool = True,
) -> dict[str, Samples]:
    """At least `rounds` rounds and about `seconds` seconds, after one that does not count (unless
    all have run before: `warm=False`)."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values() if warm else ():
        run()
    dice, order = Random(0), list(contenders)
    began = time.perf_counter()
    while len(next(iter(taken.values()))) < rounds or time.perf_counter() - began < seconds:
        dice.shuffle(order)
        for name in order:
            taken[name].append(clock(contenders[name]))
    return {name: Samples(times) for name, times in taken.items()}
