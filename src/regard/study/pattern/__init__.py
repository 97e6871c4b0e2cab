"""The patterns, one line of the table each.

base       what a pattern is: a number, what chance would give, the rows that show it
sink       keys that nearly every row parks on
distance   the token before, the token itself, a fixed offset, the neighbourhood
copies     earlier copies of the token, and what followed them
delimiter  punctuation and line breaks
retrieval  a needle, copied while writing
shape      even, sharp, saturated rows; heads that write next to nothing
table      all of them
"""

from __future__ import annotations

from regard.study.pattern.base import LEAST_NON_SINK, Measure, Pattern, RowValues
from regard.study.pattern.retrieval import Needle
from regard.study.pattern.table import every_pattern

__all__ = [
    "LEAST_NON_SINK",
    "Measure",
    "Needle",
    "Pattern",
    "RowValues",
    "every_pattern",
]
