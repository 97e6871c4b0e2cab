"""Hand calculations: exercises to hand out, and what comes back, judged step by step.

exercise → submission (of JSON, or markdown → lines → cells) → marking (on working and bands)
→ causes → report → statistics (of many)
"""

from __future__ import annotations

from regard.learn.grading.exercise import exercise_key, exercise_markdown
from regard.learn.grading.report import COLUMNS, Graded, full, grade_file, one_line, tally
from regard.learn.grading.statistics import Statistics, statistics

__all__ = [
    "COLUMNS",
    "Graded",
    "Statistics",
    "exercise_key",
    "exercise_markdown",
    "full",
    "grade_file",
    "one_line",
    "statistics",
    "tally",
]
