"""Attention as students write it, run beside the definition.

names, entry → build, probes → session, observe (in child, from grade)
→ hypotheses of recipe and mistakes → diagnose → grade
"""

from __future__ import annotations

from regard.learn.programs.grade import FORMATS, GradedCode, as_format, grade_code

__all__ = ["FORMATS", "GradedCode", "as_format", "grade_code"]
