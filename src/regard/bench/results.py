"""Results as rows of a CSV file: what ran, how long, on which machine, with which versions."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from regard.errors import FileError, RegardError

__all__ = ["Result", "WrongResultError", "append_csv", "machine", "today"]


class WrongResultError(RegardError):
    """A contender's answer is wrong, so its time means nothing."""


@dataclass(frozen=True)
class Result:
    """One contender on one configuration."""

    date: str
    suite: str
    what: str  # the contender
    implementation: str
    tokens: int
    dim: int
    heads: int
    causal: bool
    dtype: str
    median_ms: float
    p20_ms: float
    p80_ms: float
    peer: str  # what the ratio is against
    ratio: float  # median of the rounds' ratios
    rounds: int
    threads: int
    machine: str
    torch: str
    regard: str
    batch: int = 1
    tflops: float | None = None  # of the plain attention, whatever was measured beside it
    extra_mib: float | None = None  # peak beyond inputs and output
    note: str = ""


def today() -> str:
    """The date, UTC."""
    return datetime.now(UTC).date().isoformat()


def machine() -> str:
    """The processor and how many of it."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return f"{name} × {os.cpu_count()}"


def append_csv(path: Path, results: Sequence[Result]) -> None:
    """Add rows; a new file gets the header first. Columns must be the ones this version writes."""
    names = [field.name for field in fields(Result)]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    known = text.splitlines()[0].split(",") if text else names
    if known != names:
        raise FileError(f"{path} has columns {', '.join(known)}; move it away to begin a new one")
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        if not text:
            writer.writeheader()
        writer.writerows(asdict(result) for result in results)
