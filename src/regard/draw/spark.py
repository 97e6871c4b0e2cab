"""Small pictures inside a line: bars, and profiles a line high."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.draw.paper import Paper

_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = ".:-=+*#@"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int, paper: Paper) -> str:
    """A bar of `width` cells for a share of 1; something is never drawn as nothing."""
    clamped = min(max(share, 0.0), 1.0) if not math.isnan(share) else 0.0
    if paper.is_ascii:
        return "#" * max(round(clamped * width), clamped > 0)
    eighths = max(round(clamped * width * 8), clamped > 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def spark(values: ArrayLike, paper: Paper, high: float | None = None) -> str:
    """One character a value, from 0 up to `high`, by default the largest; NaN is a blank."""
    given = np.asarray(values, np.float64)
    finite = given[np.isfinite(given)]
    top = high if high is not None else float(finite.max()) if finite.size else 0.0
    signs = _ASCII_HEIGHTS if paper.is_ascii else _HEIGHTS
    return "".join(" " if math.isnan(v) else signs[_step(v, top, len(signs))] for v in given)


def binned(values: ArrayLike, most: int) -> NDArray[np.float64]:
    """The means of at most `most` pieces of about equal length; NaN does not count."""
    given = np.asarray(values, np.float64)
    if len(given) <= most:
        return given
    edges = np.linspace(0, len(given), most + 1).astype(np.int64)
    known = ~np.isnan(given)
    sums = np.add.reduceat(np.where(known, given, 0.0), edges[:-1])
    counts = np.add.reduceat(known, edges[:-1], dtype=np.int64)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def _step(value: float, top: float, count: int) -> int:
    """Which sign; the lowest only for (almost) nothing."""
    share = min(max(value / top, 0.0), 1.0) if top > 0 else 0.0
    return min(math.ceil(share * (count - 1) - 0.05), count - 1) if share > 0.005 else 0
