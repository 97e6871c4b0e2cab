"""Exercise sheets: a whole calculation, one step of it, or the questions of a lab; how to grade.

question → matching, arranging, later_steps (what is asked) → catalogue → page (the sheet and its
key) → judge, changed → report. A folder of sheets: saving.
"""

from __future__ import annotations

from regard.learn.worksheets.catalogue import LABS, STEPS, check_step, lab_named, title_of
from regard.learn.worksheets.page import Sheet, make_sheet
from regard.learn.worksheets.report import GradedSheet, grade_written
from regard.learn.worksheets.saving import keys_of, save_sheets, seeds_of

__all__ = [
    "LABS",
    "STEPS",
    "GradedSheet",
    "Sheet",
    "check_step",
    "grade_written",
    "keys_of",
    "lab_named",
    "make_sheet",
    "save_sheets",
    "seeds_of",
    "title_of",
]
