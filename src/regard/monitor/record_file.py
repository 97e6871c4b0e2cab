"""Samples into a recording: step-indexed arrays, a few frames at a time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.monitor.sample import STATISTICS, Sample
from regard.recording import Alarm, Reader, Writer
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
        self._places: tuple[str, ...] = ()
        self._alarms: tuple[Alarm, ...] = ()
        self._waiting: list[Sample] = []
        self._since = time.monotonic()
        if self.path.exists():
            self._next, self._maps = _written(self.path)
            self._writer = extend(self.path)
        else:
            self._next, self._maps = 0, set[str]()
            self._writer = Writer(self.path)
            self._writer.note({"contents": CONTENTS})

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """One more sample; written with others, alarms at once."""
        if sample.places != self._places:
            self._flush()
            self._places = sample.places
            said = {"places": self._places, "statistics": STATISTICS}
            self._writer.note({TRAINING_NOTE: json.dumps(said)})
        if len(alarms) > len(self._alarms):
            self._alarms = tuple(alarms)
            told = json.dumps([one.to_dict() for one in self._alarms])
            self._writer.note({ALARMS_NOTE: told})
        self._waiting.append(sample)
        overdue = time.monotonic() - self._since > _SECONDS
        if len(self._waiting) >= _SAMPLES or overdue or sample.maps:
            self._flush()

    def close(self) -> None:
        """Write what waits and let the file go."""
        self._flush()
        self._writer.close()

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
            whole = np.stack([sample[name] for sample in samples])
            self._writer.add(series_name(name, self._next), whole)
        self._next += len(samples)


def _written(path: Path) -> tuple[int, set[str]]:
    """Behind all samples that are in a recording, and the names of its maps."""
    with Reader(path) as reader:
        ours = [name for name in reader.entries if name.startswith("training/")]
        maps = {name for name in ours if name.startswith("training/map/")}
        starts = [
            int(name.rpartition("/")[2]) + reader.entries[name].shape[0]
            for name in ours
            if name not in maps
        ]
    return max(starts, default=0), maps
