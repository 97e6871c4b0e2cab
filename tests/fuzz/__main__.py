"""Random problems for as long as wanted: `make fuzz SECONDS=600`, or from tests/
`python -m fuzz --seconds 600 [--area NAME]`. `--area NAME --seed N` runs one problem again."""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence

import torch

from fuzz import DEVICE, areas, failure, load
from regard.errors import RegardWarning

_EVERY = 10.0  # seconds between lines of progress


def main(given: Sequence[str] | None = None) -> int:
    """0 where nothing failed, 1 otherwise."""
    warnings.filterwarnings("error", category=RegardWarning)  # as pytest has it
    asked = _arguments(given)
    if asked.seed is not None:
        return max(_repeat(area, asked.seed) for area in asked.area)
    run = Run(asked.area)
    print(f"{', '.join(asked.area)}: {asked.seconds:g} s on {DEVICE}, seeds from {run.first}")
    try:
        run.until(asked.seconds)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    print(run.state())
    for line in run.failed:
        print(line)
    return 1 if run.failed else 0


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to draw problems")
    parser.add_argument("--area", action="append", choices=areas(), help="all by default")
    parser.add_argument("--seed", type=int, help="run this problem of the areas, and no other")
    asked = parser.parse_args(given)
    asked.area = asked.area or areas()
    return asked


def _repeat(area: str, seed: int) -> int:
    wrong = failure(load(area).check, seed)
    if wrong is not None:
        traceback.print_exception(wrong)
    print(f"{area} --seed {seed}: {'passed' if wrong is None else 'failed'}")
    return int(wrong is not None)


class Run:
    """Problems of several areas in turns: the area that had least time comes next."""

    def __init__(self, names: Sequence[str]) -> None:
        self.checks = {name: load(name).check for name in names}
        # beyond the seeds of the suite, and others each time
        self.first = random.SystemRandom().randrange(10**6, 10**9)
        self.ran: Counter[str] = Counter()
        self.spent: dict[str, float] = dict.fromkeys(names, 0.0)
        self.failed: list[str] = []

    def until(self, seconds: float) -> None:
        """Draw problems for so long; each area draws one at least."""
        start = shown = time.monotonic()
        while (now := time.monotonic()) - start < seconds or not all(
            map(self.ran.get, self.checks)
        ):
            self._draw(min(self.spent, key=lambda name: (self.ran[name] > 0, self.spent[name])))
            if self.failed and not _works():
                print(f"{DEVICE} is lost with the problem above; later ones cannot run", flush=True)
                return
            if now - shown > _EVERY:
                print(f"{now - start:.0f} s: {self.state()}", flush=True)
                shown = now

    def state(self) -> str:
        """How many problems there were."""
        ran = ", ".join(f"{name} {self.ran[name]}" for name in self.checks)
        return f"{ran}; {len(self.failed)} failed"

    def _draw(self, name: str) -> None:
        seed = self.first + self.ran[name]
        begun = time.monotonic()
        wrong = failure(self.checks[name], seed)
        self.spent[name] += time.monotonic() - begun
        self.ran[name] += 1
        if wrong is not None:
            again = f'make fuzz ARGS="--area {name} --seed {seed}"'
            self.failed.append(f"{again}: {_first_line(wrong)}")
            traceback.print_exception(wrong)
            print(self.failed[-1], flush=True)


def _works() -> bool:
    """Whether the device still computes: after a wrong access to its memory nothing does."""
    try:
        return bool(torch.ones(1, device=DEVICE).sum() == 1)
    except RuntimeError:
        return False


def _first_line(wrong: Exception) -> str:
    return traceback.format_exception_only(wrong)[0].splitlines()[0]


if __name__ == "__main__":
    faulthandler.enable()  # a kernel that crashes ends the process: name the seed's frame
    sys.exit(main())
