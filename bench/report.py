"""What a report costs, by the length of the text: made recordings of 12 × 12 heads.

The ratio is to linear growth from the shortest text: 1 is linear.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import regard
from bench.long_recording import write_large
from regard.bench.results import Result, timed
from regard.bench.timing import Samples, take_turns

_LAYERS = _HEADS = 12


def measure(tokens: list[int], seconds: float = 2.0) -> list[Result]:
    """A report of each length; all lengths take turns."""
    from regard.recording import Writer

    with tempfile.TemporaryDirectory() as folder:
        paths = {count: Path(folder) / f"{count}.regard" for count in tokens}
        for count, path in paths.items():
            with Writer(path) as writer:
                write_large(writer, count, _LAYERS, _HEADS)
        contenders = {str(count): partial(_report, path) for count, path in paths.items()}
        taken = take_turns(contenders, seconds=seconds, rounds=3)
    first = tokens[0]
    return [_result(count, taken[str(count)], first, taken[str(first)]) for count in tokens]


def _report(path: Path) -> str:
    from regard import study

    with regard.open(path) as recording:
        return study.report_markdown(study.make_report(recording))


def _result(tokens: int, taken: Samples, first: int, shortest: Samples) -> Result:
    growth = [
        mine / (other * tokens / first)
        for mine, other in zip(taken.seconds, shortest.seconds, strict=True)
    ]
    return timed(
        taken, 1, median(growth), suite="report", what="report", implementation="numpy",
        tokens=tokens, dim=64, heads=_LAYERS * _HEADS, causal=True, dtype="float32",
        peer=f"linear from {first}",
    )  # fmt: skip
