"""Why scores are divided by √d_k: measured in the lab, then told as a table, a plot, a reading."""

from __future__ import annotations

from regard.learn.scaling.lab import (
    DEAD,
    STATISTICS,
    Reading,
    measure,
    powers_of_two,
    temperature,
)
from regard.learn.scaling.report import intro, whole_report

__all__ = [
    "DEAD",
    "STATISTICS",
    "Reading",
    "intro",
    "measure",
    "powers_of_two",
    "temperature",
    "whole_report",
]
