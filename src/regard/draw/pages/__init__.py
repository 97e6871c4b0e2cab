"""Whole answers about a recording. `make_…` gathers the numbers of a page; the page then has
`as_dict()` for JSON and `lines(paper)` for a terminal.

page       what every page can do
overview   the model, the text, what was kept, one number a head
many       … over many documents
head       a head's map, numbers and profiles
row        a row as shaded text, its heaviest keys
region     a part of the matrix, in figures or as a map
run        a training run: its statistics from first to last, its alarms
about      what a recording says of itself
picture    the matrix in cells that fit the paper
sight      what may be seen, in cells
profile    distances, entropies, mass received
words      small things said on several pages
"""

from __future__ import annotations

from regard.draw.pages.head import HeadPage, make_head
from regard.draw.pages.many import ManyPage, make_many
from regard.draw.pages.overview import Overview, make_overview
from regard.draw.pages.page import Page
from regard.draw.pages.picture import Look, fitting_cell
from regard.draw.pages.region import RegionPage, make_region
from regard.draw.pages.row import RowPage, find_row, make_row
from regard.draw.pages.run import RunPage, make_run
from regard.draw.pages.words import why_unknown

__all__ = [
    "HeadPage",
    "Look",
    "ManyPage",
    "Overview",
    "Page",
    "RegionPage",
    "RowPage",
    "RunPage",
    "find_row",
    "fitting_cell",
    "make_head",
    "make_many",
    "make_overview",
    "make_region",
    "make_row",
    "make_run",
    "why_unknown",
]
