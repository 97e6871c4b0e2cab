"""Exercise sheets: a whole calculation, or one step of it; how to grade.

question (what is asked after one head) → sheet (and its key) → judge → report. A folder of sheets:
saving.
"""

from __future__ import annotations

from regard.learn.worksheets.report import GradedSheet, grade_written
from regard.learn.worksheets.saving import keys_of, save_sheets, seeds_of
from regard.learn.worksheets.sheet import STEPS, Sheet, check_step, make_sheet, title_of

__all__ = [
    "STEPS",
    "GradedSheet",
    "Sheet",
    "check_step",
    "grade_written",
    "keys_of",
    "make_sheet",
    "save_sheets",
    "seeds_of",
    "title_of",
]
