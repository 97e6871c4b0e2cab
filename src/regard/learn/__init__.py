"""The notes' system, `regard.attention`, as a lesson, in the order it passes through. No torch.

lesson     a sentence, its embeddings and projections → every intermediate as one value
story      that value → a document: prose, arithmetic, grids, without colour or layout
render     the document → terminal, Markdown, HTML
grading    exercises → hand calculations → the first wrong step, and why
worksheets exercise sheets for each step → their answers, judged
text       words and numbers as they are shown; files of text
"""

from __future__ import annotations

from regard.learn.lesson import Lesson, Options, make_lesson
from regard.learn.lesson.head import Head, attend

__all__ = ["Head", "Lesson", "Options", "attend", "make_lesson"]
