"""Which query may see which key, as values that combine: `Causal() & Padding(lengths)`.

A mask is a rule, never an L×S array. It answers two questions:

    mask.allows(i, j, extent)        for index vectors i (R,) and j (C,): may i see j?
    mask.verdict(rows, cols, extent) for a whole tile: none, some or all of it?

The second lets every implementation skip tiles that nobody sees and leave tiles that everybody
sees unmasked. Index vectors come from numpy or from torch; only operators and indexing that both
share are used, so that the reading side needs no torch. Arrays inside a mask must be of the same
library as the indices: `mask.map(convert)` makes them so.

Positions: query i stands at key position i + shift. With align="end" the last query stands at
the last key, as in decoding with a cache; with align="start" query 0 stands at key 0, as
torch's `is_causal` has it. The two agree when there are as many queries as keys.
"""

from __future__ import annotations

from regard.declare import array
from regard.mask.base import Align, Extent, Mask, Part, Verdict, as_mask
from regard.mask.kinds import Causal, Documents, Intervals, Padding, Prefix, Rule, Table, Window
from regard.mask.packed import Pack, Packed

__all__ = [
    "Align",
    "Causal",
    "Documents",
    "Extent",
    "Intervals",
    "Mask",
    "Pack",
    "Packed",
    "Padding",
    "Part",
    "Prefix",
    "Rule",
    "Table",
    "Verdict",
    "Window",
    "array",
    "as_mask",
]
