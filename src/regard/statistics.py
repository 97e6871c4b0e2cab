"""What can be measured of an attention. Each statistic is a value: give it to
`attend(summaries=…)`, which measures it during the forward, or to `a.summarize(…)` later.

rows       Entropy MaxScore MaxLogit Concentration Distance Matching Visible
           Top and Peak, the heaviest keys of each row
keys       Received Weighted
diagonals  Offsets
map        Pooled

A statistic of your own is a subclass of RowStatistic, RowMean or ColumnStatistic that declares its
definition; how it is computed and merged follows (`regard.summary`).
"""

from __future__ import annotations

from regard.summary import ColumnStatistic as ColumnStatistic
from regard.summary import Concentration as Concentration
from regard.summary import Distance as Distance
from regard.summary import Entropy as Entropy
from regard.summary import Matching as Matching
from regard.summary import MaxLogit as MaxLogit
from regard.summary import MaxScore as MaxScore
from regard.summary import Offsets as Offsets
from regard.summary import Peak as Peak
from regard.summary import Pooled as Pooled
from regard.summary import Received as Received
from regard.summary import RowMean as RowMean
from regard.summary import RowStatistic as RowStatistic
from regard.summary import Summary as Summary
from regard.summary import Top as Top
from regard.summary import Visible as Visible
from regard.summary import Weighted as Weighted
