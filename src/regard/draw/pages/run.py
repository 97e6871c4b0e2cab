"""A training run in short: each statistic from the first to the last step, and the alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.draw.finish import wrapped
from regard.draw.pages.words import as_json
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import count, number
from regard.draw.table import Column, aligned
from regard.recording import Alarm, Limit, Recording, Training

_ALARMS = 12  # listed


@dataclass(frozen=True)
class _Extreme:
    """The least or the largest number of a statistic."""

    value: float
    head: str
    step: int

    def words(self) -> str:
        """'0.012 L5H1'."""
        return f"{number(self.value)} {self.head}" if self.head else ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"value": as_json(self.value), "head": self.head, "step": self.step}


@dataclass(frozen=True)
class _Course:
    """One statistic over the steps."""

    name: str
    meaning: str
    first: float  # median of all heads at the first step
    last: float
    least: _Extreme
    largest: _Extreme
    limit: Limit | None

    def limit_words(self) -> str:
        """'< 0.05', or nothing."""
        if self.limit is None:
            return ""
        return f"{'>' if self.limit.side == 'above' else '<'} {self.limit.value:g}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "meaning": self.meaning,
            "median_first": as_json(self.first),
            "median_last": as_json(self.last),
            "least": self.least.as_dict(),
            "largest": self.largest.as_dict(),
            "limit": None if self.limit is None else self.limit.to_dict(),
        }


@dataclass(frozen=True)
class RunPage:
    """A run that was monitored."""

    steps: tuple[int, int]
    samples: int
    places: tuple[str, ...]
    courses: list[_Course]
    alarms: tuple[Alarm, ...]
    maps: dict[str, list[int]]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is null."""
        alarms = [
            one.to_dict() | {"value": as_json(one.value), "threshold": as_json(one.threshold)}
            for one in self.alarms
        ]
        return {
            "samples": self.samples, "steps": list(self.steps), "places": list(self.places),
            "statistics": {one.name: one.as_dict() for one in self.courses},
            "alarms": alarms, "maps": self.maps,
        }  # fmt: skip

    def lines(self, paper: Paper) -> list[StyledLine]:
        """For a terminal."""
        first, last = self.steps
        words = f"training: {count(self.samples, 'sampled step')}, {first:,}{paper.dash}{last:,}, "
        lines = wrapped(words + count(len(self.places), "layer"), paper, "bold")
        return [*lines, *self._table(paper), [], *self._alarm_lines(paper), *self._maps(paper)]

    def _table(self, paper: Paper) -> list[StyledLine]:
        every = self.courses
        columns = [
            Column("statistic", [one.name for one in every]),
            Column("limit", [one.limit_words() for one in every]),
            Column("first", [number(one.first) for one in every], True),
            Column("last", [number(one.last) for one in every], True),
            Column("least", [one.least.words() for one in every]),
            Column("largest", [one.largest.words() for one in every]),
        ]
        note = "first and last: the median of all heads, at the first and the last step"
        return [*aligned(columns, paper), *wrapped(note, paper, "dim")]

    def _alarm_lines(self, paper: Paper) -> list[StyledLine]:
        if not self.alarms:
            return wrapped("no alarm: no head stayed over a limit", paper)
        lines: list[StyledLine] = [[(count(len(self.alarms), "alarm"), "bold")]]
        for one in self.alarms[:_ALARMS]:
            lines += wrapped(str(one), paper, indent=2)
        rest = len(self.alarms) - _ALARMS
        return [*lines, *([[(f"and {rest:,} more", "dim")]] if rest > 0 else [])]

    def _maps(self, paper: Paper) -> list[StyledLine]:
        if not self.maps:
            return []
        kept = sum(map(len, self.maps.values()))
        words = f"{count(kept, 'map')} of {count(len(self.maps), 'head')} stored; regard view FILE"
        return wrapped(f"{words} shows them", paper, "dim")


def make_run(recording: Recording) -> RunPage | None:
    """The numbers of the page; None where no step was sampled."""
    run = recording.training
    if not len(run):
        return None
    courses = [_course(run, name, meaning) for name, meaning in run.words.items()]
    ends = int(run.steps[0]), int(run.steps[-1])
    return RunPage(ends, len(run), run.places, courses, run.alarms, run.maps)


def _course(run: Training, name: str, meaning: str) -> _Course:
    values = run[name]
    return _Course(
        name,
        meaning,
        _median(values[0]),
        _median(values[-1]),
        _extreme(run, np.where(np.isnan(values), np.inf, values), values, is_least=True),
        _extreme(run, np.where(np.isnan(values), -np.inf, values), values, is_least=False),
        (run.limits or {}).get(name),
    )


def _median(values: NDArray[np.float32]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")


def _extreme(
    run: Training, filled: NDArray[np.float32], values: NDArray[np.float32], *, is_least: bool
) -> _Extreme:
    if np.isnan(values).all():
        return _Extreme(float("nan"), "", -1)
    flat = filled.argmin() if is_least else filled.argmax()
    step, place, head = (int(one) for one in np.unravel_index(flat, values.shape))
    return _Extreme(
        float(values[step, place, head]), f"{run.places[place]}H{head}", int(run.steps[step])
    )
