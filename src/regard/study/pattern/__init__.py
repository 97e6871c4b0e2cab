"""The patterns, one line of the table each.

base       what a pattern is: a number, what chance would give, the rows that show it
sink       keys that nearly every row parks on
distance   the token before, the token itself, a fixed offset, the neighbourhood
copies     earlier copies of the token, and what followed them
delimiter  punctuation and line breaks
related    patches beside one's own, in its row, its column, at its place in another frame
keys       a picture's border, class and register tokens, patches that are sinks
connected  patches that hang together
retrieval  a needle, copied while writing
shape      even, sharp, saturated rows; heads that write next to nothing
table      all of them, and which of them a place is asked for
"""

from __future__ import annotations

from regard.study.pattern.base import LEAST_NON_SINK, Measure, Pattern, RowValues
from regard.study.pattern.retrieval import Needle
from regard.study.pattern.table import every_pattern, patterns_of

__all__ = [
    "LEAST_NON_SINK",
    "Measure",
    "Needle",
    "Pattern",
    "RowValues",
    "every_pattern",
    "patterns_of",
]
