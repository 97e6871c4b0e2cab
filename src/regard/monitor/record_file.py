"""Samples into a recording: step-indexed arrays, a few frames at a time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.monitor.alarms import Limits
from regard.monitor.sample import STATISTICS, Sample
from regard.recording import Alarm, Limit, Reader, Training, Writer
from regard.recording.contents import CONTENTS
from regard.recording.extend import extend
from regard.recording.training import ALARMS_NOTE, TRAINING_NOTE, map_name, series_name

__all__ = ["RecordingFile"]

_SAMPLES = 64  # that are written together at most
_SECONDS = 5.0  # that a sample waits at most, so long as others come


class RecordingFile:
    """A .regard file with a training run in it; `regard.open(path).training` reads it.

    A recording that is there is gone on with, so a run that is resumed keeps its file. A run that
    dies loses at most the samples of the last few seconds.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._limits: dict[str, Limit] | None = None
        self._waiting: list[Sample] = []
        self._since = time.monotonic()
        self._first: int | None = None  # the first step that is told here
        self._before = _Before() if not self.path.exists() else _written(self.path)
        self._places, self._next = self._before.places, self._before.samples
        self._maps, self._alarms = set(self._before.maps), self._before.alarms
        self._is_noted = False  # whether places, statistics and limits are
        if self.path.exists():
            self._writer = extend(self.path)
        else:
            self._writer = Writer(self.path)
            self._writer.note({"contents": CONTENTS})

    def begin(self, limits: Limits) -> None:
        """Limits are written with the first sample."""
        self._limits = limits.by_statistic()

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """One more sample; written with others, alarms at once."""
        self._first = sample.step if self._first is None else self._first
        fresh = [place for place in sample.places if place not in self._places]
        if fresh or not self._is_noted:
            self._flush()
            self._places = (*self._places, *fresh)
            self._note()
        told = self._all_alarms(alarms, self._first)
        if told != self._alarms:
            self._alarms = told
            self._writer.note({ALARMS_NOTE: json.dumps([one.to_dict() for one in told])})
        self._waiting.append(sample)
        overdue = time.monotonic() - self._since > _SECONDS
        if len(self._waiting) >= _SAMPLES or overdue or sample.maps:
            self._flush()

    def close(self) -> None:
        """Write what waits and let the file go."""
        self._flush()
        self._writer.close()

    def _all_alarms(self, alarms: Sequence[Alarm], first: int) -> tuple[Alarm, ...]:
        """Those of the run before that lie before this one's first step, then its own; of a head
        and a kind the first."""
        earlier = [one for one in self._before.alarms if one.step < first]
        known = {(one.kind, one.head) for one in earlier}
        return (*earlier, *(one for one in alarms if (one.kind, one.head) not in known))

    def _note(self) -> None:
        said: dict[str, Any] = {"places": self._places, "statistics": STATISTICS}
        if self._limits is not None:
            said["limits"] = {name: one.to_dict() for name, one in self._limits.items()}
        self._writer.note({TRAINING_NOTE: json.dumps(said)})
        self._is_noted = True

    def _flush(self) -> None:
        self._since = time.monotonic()
        if not self._waiting:
            return
        samples, self._waiting = self._waiting, []
        for sample in samples:
            for head, pooled in sample.maps.items():
                name = map_name(head, sample.step)
                if name not in self._maps:  # a resumed run comes by some steps again
                    self._maps.add(name)
                    self._writer.add(name, pooled)
        steps = np.array([sample.step for sample in samples], np.int64)
        self._writer.add(series_name("steps", self._next), steps)
        for name in STATISTICS:
            whole = np.stack([_placed(sample, name, self._places) for sample in samples])
            self._writer.add(series_name(name, self._next), whole)
        self._next += len(samples)


def _placed(sample: Sample, statistic: str, places: tuple[str, ...]) -> NDArray[np.float32]:
    """(places, heads) in the order of the file, which may know more places than this run."""
    values = sample[statistic]
    if sample.places == places:
        return values
    found = np.full((len(places), values.shape[1]), np.nan, np.float32)
    found[[places.index(one) for one in sample.places]] = values
    return found


@dataclass(frozen=True)
class _Before:
    """What a recording has of a run that is gone on with."""

    places: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    samples: int = 0  # behind the last
    maps: frozenset[str] = frozenset()  # by their names


def _written(path: Path) -> _Before:
    with Reader(path) as reader:
        told = Training(reader)
        ours = [name for name in reader.entries if name.startswith("training/")]
        maps = frozenset(name for name in ours if name.startswith("training/map/"))
        behind = [
            int(name.rpartition("/")[2]) + reader.entries[name].shape[0]
            for name in ours
            if name not in maps
        ]
    return _Before(told.places, told.alarms, max(behind, default=0), maps)
