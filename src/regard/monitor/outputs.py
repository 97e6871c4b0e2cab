"""Where samples go: alarms, a table, a recording, TensorBoard, any function."""

from __future__ import annotations

import csv
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError, InputError, MissingExtraError, RegardWarning
from regard.files import check_regular, reason, shown
from regard.monitor.sample import STATISTICS, Sample
from regard.recording import Alarm, Limit, Reader, Training, Writer
from regard.recording.format.write import extend
from regard.recording.schema import CONTENTS
from regard.recording.training import ALARMS_NOTE, LOSS, TRAINING_NOTE, map_name, series_name

_KINDS = ("entropy collapse", "score growth", "inactive head")
_BROKEN = "scores not finite"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Limits:
    """When a head causes an alarm.

    entropy     normalised entropy below it is a collapse, in a head that was once at twice it: of
                1,024 keys 1.4 are effectively used (1024^0.05), and the softmax hardly moves any
                more. A head that was that sharp from the first sample on has not collapsed.
    max_score   The usual τ of QK-clip. In bfloat16 neighbours are 0.5 apart at 100, so a weight is
                off by up to a factor of e^0.25 = 1.28.
    sink_mass   a head that leaves less than a twentieth of its mass to anything but the first key
                that a row sees writes next to nothing: it is switched off.
    lasting     samples in a row over a limit before it is an alarm, so that one odd batch is none

    None in place of a number: no such alarm. Scores that are NaN or infinite have no limit to move:
    they are an alarm in the first sample that has one.
    """

    entropy: float | None = 0.05
    max_score: float | None = 100.0
    sink_mass: float | None = 0.95
    lasting: int = 3

    def __post_init__(self) -> None:
        for name in ("entropy", "max_score", "sink_mass"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InputError(f"{name}={value!r}; give a number, or None for no such alarm")
        if self.lasting < 1:
            raise InputError(f"lasting={self.lasting!r}; give a number of samples ≥ 1")

    def by_statistic(self) -> dict[str, Limit]:
        """The limits in force, as a recording keeps them."""
        limits: dict[str, tuple[Literal["above", "below"], float | None]] = {
            "normalized_entropy": ("below", self.entropy),
            "max_score": ("above", self.max_score),
            "sink_mass": ("above", self.sink_mass),
        }
        return {n: Limit(side, float(v)) for n, (side, v) in limits.items() if v is not None}


class AlarmTracker:
    """Compares every sample with the limits; one alarm per head and kind."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._runs: dict[tuple[str, str], tuple[int, Alarm]] = {}  # samples over the limit so far
        self._given: set[tuple[str, str]] = set()
        self._spread: set[str] = set()  # heads that once had entropy to lose

    def update(self, sample: Sample) -> list[Alarm]:
        """The alarms that this sample completes."""
        alarms: list[Alarm] = []
        for label, numbers in sample.heads():
            over = {alarm.kind: alarm for alarm in self._over(label, numbers, sample.step)}
            for kind in (*_KINDS, _BROKEN):
                key = kind, label
                if kind not in over:
                    self._runs.pop(key, None)
                    continue
                count, first = self._runs.get(key, (0, over[kind]))
                self._runs[key] = count + 1, first
                lasting = 1 if kind == _BROKEN else self.limits.lasting
                if count + 1 >= lasting and key not in self._given:
                    self._given.add(key)
                    alarms.append(first)
        return alarms

    def _over(self, label: str, numbers: Mapping[str, float], step: int) -> Iterator[Alarm]:
        """The limits that this head is over now."""
        limits, entropy = self.limits, numbers["normalized_entropy"]
        if limits.entropy is not None:
            if entropy >= 2 * limits.entropy:
                self._spread.add(label)
            if entropy < limits.entropy and label in self._spread:
                yield Alarm(_KINDS[0], label, step, "normalized_entropy", entropy, limits.entropy)
        largest = numbers["max_score"]
        if largest == math.inf:
            yield Alarm(_BROKEN, label, step, "max_score", largest, _LARGEST)
            return  # the head's other numbers mean nothing
        above = (("max_score", limits.max_score), ("sink_mass", limits.sink_mass))
        for kind, (statistic, limit) in zip(_KINDS[1:], above, strict=True):
            if limit is not None and numbers[statistic] > limit:
                yield Alarm(kind, label, step, statistic, numbers[statistic], limit)


# ── logs ─────────────────────────────────────────────────────────────────────────────────────


class Log(Protocol):
    """A destination of samples."""

    def begin(self, limits: Limits) -> None:
        """Begin a run with these limits for its alarms."""
        return

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Log a sample, and every alarm so far."""
        ...

    def close(self) -> None:
        """End the log: there are no more samples."""
        return


_COLUMNS = ("step", "head", *STATISTICS, LOSS)


class CSV(Log):
    """One row per head and sampled step; `loss`, the last column, is the step's and empty where
    none was given. If the file exists, rows are appended to it, in its columns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self._warned = Path(path), False
        try:
            if os.path.lexists(self.path):
                check_regular(self.path)
            self._file = self.path.open("a+", newline="", encoding="utf-8")
        except (OSError, ValueError) as error:
            raise FileError(f"{shown(self.path)}: cannot be written ({reason(error)})") from None
        self._rows = csv.writer(self._file, lineterminator="\n")
        if self._file.tell() == 0:
            self._rows.writerow(_COLUMNS)
        self._file.seek(0)
        self._has_loss = LOSS in self._file.readline().rstrip().split(",")

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Write the heads that took part."""
        loss = ["" if sample.loss is None else f"{sample.loss:.6g}"]
        if not self._has_loss:
            self._warn_without_column(sample)
            loss = []
        for label, numbers in sample.heads():
            written = (f"{n:.6g}" for n in numbers.values())
            self._rows.writerow((sample.step, label, *written, *loss))
        self._file.flush()

    def _warn_without_column(self, sample: Sample) -> None:
        if sample.loss is not None and not self._warned:
            self._warned = True
            said = f"{shown(self.path)} has no column `loss`, so it is not written; use a new file"
            warnings.warn(said, RegardWarning, stacklevel=6)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Calls(Log):
    """`log(numbers, step)`: what W&B, MLflow and the like take.

    heads   every head by its label as well, not only minimum, mean and maximum over heads
    """

    def __init__(self, log: Callable[[Mapping[str, float], int], Any], heads: bool = False) -> None:
        self._log, self._heads = log, heads

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Flat names: attention/max_score/max, attention/max_score/L5H1."""
        self._log(sample.scalars(self._heads), sample.step)


class TensorBoard(Log):
    """Scalars for TensorBoard, under attention/; `heads` as in `Calls`."""

    def __init__(self, folder: str | os.PathLike[str], heads: bool = False) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "tensorboard":
                raise
            raise MissingExtraError(
                "regard.monitor.TensorBoard", "tensorboard", "tensorboard"
            ) from None
        self._board: Any = SummaryWriter(os.fspath(folder))
        self._heads, self._written = heads, 0  # alarms so far

    def begin(self, limits: Limits) -> None:
        """Write the limits as text."""
        words = [f"{name} {one.side} {one.value:g}" for name, one in limits.by_statistic().items()]
        self._board.add_text("attention/limits", ", ".join(words) or "none")

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Write scalars, and new alarms as text."""
        for name, value in sample.scalars(self._heads).items():
            self._board.add_scalar(name, value, sample.step)
        for alarm in alarms[self._written :]:
            self._board.add_text("attention/alarms", str(alarm), alarm.step)
        self._written = len(alarms)

    def close(self) -> None:
        """Close the writer."""
        self._board.close()


_SAMPLES = 64  # written together at most
_SECONDS = 5.0  # a sample waits at most, as long as others follow


class RecordingFile(Log):
    """A .regard file with a training run in it; `regard.open(path).training` reads it.

    If the file exists, the run is appended to it, so a run that is resumed keeps its file. A run
    that is killed loses at most the samples of the last few seconds.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._limits: dict[str, Limit] | None = None
        self._waiting: list[Sample] = []
        self._since = time.monotonic()
        self._first: int | None = None  # step of this run
        self._places: tuple[str, ...] = ()
        self._next = 0  # the number of the next sample in the file
        self._maps: set[str] = set()  # by their names
        self._earlier: tuple[Alarm, ...] = ()  # of the run that is resumed
        self._is_noted = False  # whether places, statistics and limits are
        if self.path.exists():
            self._resume()
            self._writer = extend(self.path)
        else:
            self._writer = Writer(self.path)
            self._writer.note({"contents": CONTENTS})
        self._alarms: tuple[Alarm, ...] = self._earlier

    def begin(self, limits: Limits) -> None:
        """Keep the limits, to be written with the first sample."""
        self._limits = limits.by_statistic()

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Write alarms at once, samples several together."""
        self._first = sample.step if self._first is None else self._first
        new = [place for place in sample.places if place not in self._places]
        if new or not self._is_noted:
            self._flush()
            self._places = (*self._places, *new)
            self._note()
        merged = self._all_alarms(alarms, self._first)
        if merged != self._alarms:
            self._alarms = merged
            self._writer.note({ALARMS_NOTE: json.dumps([alarm.to_dict() for alarm in merged])})
        if self._waiting and (self._waiting[-1].loss is None) != (sample.loss is None):
            self._flush()  # a piece has the loss of all its samples, or of none
        self._waiting.append(sample)
        overdue = time.monotonic() - self._since > _SECONDS
        if len(self._waiting) >= _SAMPLES or overdue or sample.maps:
            self._flush()

    def close(self) -> None:
        """Write the samples that wait, and close the file."""
        self._flush()
        self._writer.close()

    def _resume(self) -> None:
        """Take places, alarms, maps and the number of samples from the file."""
        with Reader(self.path) as reader:
            training = Training(reader)
            self._places, self._earlier = training.places, training.alarms
            names = [name for name in reader.entries if name.startswith("training/")]
            self._maps = {name for name in names if name.startswith("training/map/")}
            ends = [
                int(name.rpartition("/")[2]) + reader.entries[name].shape[0]
                for name in names
                if name not in self._maps
            ]
        self._next = max(ends, default=0)

    def _all_alarms(self, alarms: Sequence[Alarm], first: int) -> tuple[Alarm, ...]:
        """Those of the earlier run before this run's first step, then its own; one per head and
        kind."""
        earlier = [alarm for alarm in self._earlier if alarm.step < first]
        known = {(alarm.kind, alarm.head) for alarm in earlier}
        return (*earlier, *(alarm for alarm in alarms if (alarm.kind, alarm.head) not in known))

    def _note(self) -> None:
        note: dict[str, Any] = {"places": self._places, "statistics": STATISTICS}
        if self._limits is not None:
            note["limits"] = {name: limit.to_dict() for name, limit in self._limits.items()}
        self._writer.note({TRAINING_NOTE: json.dumps(note)})
        self._is_noted = True

    def _flush(self) -> None:
        self._since = time.monotonic()
        if not self._waiting:
            return
        samples, self._waiting = self._waiting, []
        for sample in samples:
            for head, pooled in sample.maps.items():
                name = map_name(head, sample.step)
                if name not in self._maps:  # a resumed run repeats some steps
                    self._maps.add(name)
                    self._writer.add(name, pooled)
        steps = np.array([sample.step for sample in samples], np.int64)
        self._writer.add(series_name("steps", self._next), steps)
        losses = [sample.loss for sample in samples if sample.loss is not None]
        if losses:  # before the statistics, without which a piece does not count
            self._writer.add(series_name(LOSS, self._next), np.array(losses, np.float32))
        for name in STATISTICS:
            whole = np.stack([self._placed(sample, name) for sample in samples])
            self._writer.add(series_name(name, self._next), whole)
        self._next += len(samples)

    def _placed(self, sample: Sample, statistic: str) -> NDArray[np.float32]:
        """(places, heads) in the order of the file, which may have more places than this run."""
        values = sample[statistic]
        if sample.places == self._places:
            return values
        placed = np.full((len(self._places), values.shape[1]), np.nan, np.float32)
        placed[[self._places.index(place) for place in sample.places]] = values
        return placed


def as_logs(given: Any) -> list[Log]:
    """The `log` option: none, one or several of paths, functions and logs."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, str | os.PathLike)
    return [_as_log(one) for one in (given if several else (given,))]


def _as_log(given: Any) -> Log:
    if isinstance(given, str | os.PathLike):
        kinds: dict[str, Callable[[Any], Log]] = {".csv": CSV, ".regard": RecordingFile}
        suffix = Path(given).suffix
        if suffix not in kinds:
            raise InputError(
                f"log={os.fspath(given)!r}; give a path that ends in .csv or .regard, a function "
                "of (numbers, step), or regard.monitor.TensorBoard(folder)"
            )
        return kinds[suffix](given)
    if all(hasattr(given, name) for name in ("begin", "take", "close")):
        log: Log = given
        return log
    if callable(given):
        return Calls(given)
    raise InputError(
        f"log={given!r:.60}; give a path, a function of (numbers, step), or a log of regard.monitor"
    )
