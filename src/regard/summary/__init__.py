"""What is measured. Each summary is a value: give it to `attend(summaries=…)` or `summarize`."""

from __future__ import annotations

from regard.running import RunningSum, Sums
from regard.summary.base import (
    ColumnStatistic,
    ColumnSums,
    Mass,
    Matrix,
    Measured,
    MergePart,
    RowMean,
    RowStatistic,
    Summary,
    TopKeys,
    TopScored,
    TopScores,
    as_summaries,
)
from regard.summary.columns import Offsets, Received, Weighted
from regard.summary.maps import Pooled
from regard.summary.questions import Asking
from regard.summary.rows import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Visible,
    normalize,
)
from regard.summary.top import Peak, Top

__all__ = [
    "Asking",
    "ColumnStatistic",
    "ColumnSums",
    "Concentration",
    "Distance",
    "Entropy",
    "Mass",
    "Matching",
    "Matrix",
    "MaxLogit",
    "MaxScore",
    "Measured",
    "MergePart",
    "Offsets",
    "Peak",
    "Pooled",
    "Received",
    "RowMean",
    "RowStatistic",
    "RunningSum",
    "Summary",
    "Sums",
    "Top",
    "TopKeys",
    "TopScored",
    "TopScores",
    "Visible",
    "Weighted",
    "as_summaries",
    "normalize",
]
