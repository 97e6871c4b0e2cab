"""Results as rows of a CSV file: what ran, how long, on which machine, with which versions."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import regard
from regard.bench.timing import Samples
from regard.errors import FileError, RegardError
from regard.files import open_file, reason, shown


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


_NAMES = [field.name for field in fields(Result)]


def timed(taken: Samples, digits: int, ratio: float, **fields: Any) -> Result:
    """A row from the rounds of a contender, in milliseconds of so many digits; `fields` are the
    others of `Result`."""
    import torch

    low, high = taken.percentiles()
    times = {"median_ms": taken.median, "p20_ms": low, "p80_ms": high}
    usual: dict[str, Any] = {name: round(one * 1e3, digits) for name, one in times.items()}
    usual |= {
        "date": today(), "ratio": round(ratio, 3), "rounds": len(taken.seconds),
        "threads": torch.get_num_threads(), "machine": machine(), "torch": torch.__version__,
        "regard": regard.__version__,
    }  # fmt: skip
    return Result(**usual | fields)


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
    is_new = check_csv(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, _NAMES, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerows(asdict(result) for result in results)
    except OSError as error:
        raise FileError(f"{shown(path)}: cannot be written ({reason(error)})") from None


def check_csv(path: Path) -> bool:
    """Whether the file is new or empty; FileError where rows cannot be added to it."""
    try:
        with open_file(path) as file:
            known = file.readline().decode("utf-8", "replace").rstrip("\n").split(",")
    except FileNotFoundError:
        return True
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be written ({reason(error)})") from None
    if known not in (_NAMES, [""]):
        columns = shown(", ".join(known))
        raise FileError(f"{shown(path)} has columns {columns}; move it away to begin a new one")
    return known == [""]
