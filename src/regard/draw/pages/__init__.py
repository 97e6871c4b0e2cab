"""Whole answers about a recording as lines of a terminal: views in, styled lines out.

overview   the model, the text, what was kept, one number a head; one text, or many documents
findings   what the heads do
head       a head's map, numbers and profiles
row        a row as shaded text, its heaviest keys
picture    a row or column over pictures; who looks at a key
sound      the words of a sound, and when each was said
region     a part of the matrix, in figures or as a map
run        a training run: its statistics from first to last, its alarms
comparison two prompts side by side
eviction   the keys an eviction would drop, and the attention lost with them
about      what a recording says of itself
"""

from __future__ import annotations

from regard.draw.pages.comparison import comparison_lines
from regard.draw.pages.eviction import eviction_lines
from regard.draw.pages.findings import finding_lines, report_lines
from regard.draw.pages.head import head_lines
from regard.draw.pages.overview import many_lines, overview_lines
from regard.draw.pages.picture import column_lines, overlay_lines
from regard.draw.pages.region import region_lines
from regard.draw.pages.row import row_lines
from regard.draw.pages.run import run_lines
from regard.draw.pages.sound import word_lines

__all__ = [
    "column_lines",
    "comparison_lines",
    "eviction_lines",
    "finding_lines",
    "head_lines",
    "many_lines",
    "overlay_lines",
    "overview_lines",
    "region_lines",
    "report_lines",
    "row_lines",
    "run_lines",
    "word_lines",
]
