"""Where samples go: a table, a recording, TensorBoard, anybody's function."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from regard.errors import FileError, InputError, MissingExtraError
from regard.files import check_regular, reason, shown
from regard.monitor.alarms import Limits
from regard.monitor.record_file import RecordingFile
from regard.monitor.sample import STATISTICS, Sample
from regard.recording import Alarm

__all__ = ["CSV", "Calls", "Log", "TensorBoard", "as_logs"]


class Log(Protocol):
    """Takes samples."""

    def begin(self, limits: Limits) -> None:
        """A run begins, whose alarms are given by these limits."""
        ...

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """One more step, and every alarm so far."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class CSV:
    """A row for every head of every sampled step. A file that is there is gone on with."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            if os.path.lexists(self.path):
                check_regular(self.path)
            self._file = self.path.open("a", newline="", encoding="utf-8")
        except (OSError, ValueError) as error:
            raise FileError(f"{shown(self.path)}: cannot be written ({reason(error)})") from None
        fresh = self._file.tell() == 0
        self._rows = csv.writer(self._file, lineterminator="\n")
        if fresh:
            self._rows.writerow(("step", "head", *STATISTICS))

    def begin(self, limits: Limits) -> None:
        """A table has no place for them."""

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """The heads that were heard."""
        for label, numbers in sample.heads():
            self._rows.writerow((sample.step, label, *(f"{n:.6g}" for n in numbers.values())))
        self._file.flush()

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


class Calls:
    """`log(numbers, step)`: what W&B, MLflow and the like take.

    heads   every head by its name as well, not only the least, mean and largest of all
    """

    def __init__(self, log: Callable[[Mapping[str, float], int], Any], heads: bool = False) -> None:
        self._log, self._heads = log, heads

    def begin(self, limits: Limits) -> None:
        """Functions are told numbers only."""

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Flat names: attention/max_score/max, attention/max_score/L5H1."""
        self._log(sample.scalars(self._heads), sample.step)

    def close(self) -> None:
        """Nothing is held."""


class TensorBoard:
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
        self._heads, self._told = heads, 0

    def begin(self, limits: Limits) -> None:
        """The limits as text."""
        words = [f"{name} {one.side} {one.value:g}" for name, one in limits.by_statistic().items()]
        self._board.add_text("attention/limits", ", ".join(words) or "none")

    def take(self, sample: Sample, alarms: Sequence[Alarm]) -> None:
        """Scalars, and new alarms as text."""
        for name, value in sample.scalars(self._heads).items():
            self._board.add_scalar(name, value, sample.step)
        for alarm in alarms[self._told :]:
            self._board.add_text("attention/alarms", str(alarm), alarm.step)
        self._told = len(alarms)

    def close(self) -> None:
        """Let the writer go."""
        self._board.close()


def as_logs(given: Any) -> list[Log]:
    """From what a caller gives: nothing, one or several of paths, functions and logs."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, str | os.PathLike)
    return [_as_log(one) for one in (given if several else (given,))]


def _as_log(one: Any) -> Log:
    if isinstance(one, str | os.PathLike):
        kinds: dict[str, Callable[[Any], Log]] = {".csv": CSV, ".regard": RecordingFile}
        suffix = Path(one).suffix
        if suffix not in kinds:
            raise InputError(
                f"log={os.fspath(one)!r}; give a path that ends in .csv or .regard, a function "
                "of (numbers, step), or regard.monitor.TensorBoard(folder)"
            )
        return kinds[suffix](one)
    if all(hasattr(one, name) for name in ("begin", "take", "close")):
        log: Log = one
        return log
    if callable(one):
        return Calls(one)
    raise InputError(
        f"log={one!r:.60}; give a path, a function of (numbers, step), or a log of regard.monitor"
    )
