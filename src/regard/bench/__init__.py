"""Speed, measured honestly: contenders take turns in one process, and only right answers count."""

from __future__ import annotations

from regard.bench.results import Result, append_csv
from regard.bench.timing import Samples, take_turns

__all__ = ["Result", "Samples", "append_csv", "take_turns"]
