"""What is measured. Each summary is a value: give it to `attend(summaries=…)` or `summarize`."""

from __future__ import annotations

from regard.state import TopKeys
from regard.summary.asking import Asking
from regard.summary.base import Matrix, Summary, as_summaries
from regard.summary.entropy import Entropy, Visible, normalize
from regard.summary.extremes import MaxLogit, MaxScore
from regard.summary.matching import Matching
from regard.summary.offsets import Offsets
from regard.summary.pooled import Pooled
from regard.summary.received import Received
from regard.summary.spread import Concentration, Distance
from regard.summary.top import Peak, Top

__all__ = [
    "Asking",
    "Concentration",
    "Distance",
    "Entropy",
    "Matching",
    "Matrix",
    "MaxLogit",
    "MaxScore",
    "Offsets",
    "Peak",
    "Pooled",
    "Received",
    "Summary",
    "Top",
    "TopKeys",
    "Visible",
    "as_summaries",
    "normalize",
]
