"""A sentence, its embeddings and its projections, and every number that follows from them."""

from __future__ import annotations

from regard.learn.lesson.make import NOTES_SENTENCE, Lesson, Options, make_lesson

__all__ = ["NOTES_SENTENCE", "Lesson", "Options", "make_lesson"]
