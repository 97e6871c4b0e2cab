"""A lesson told: one row with its arithmetic, then every row, as a document without colour."""

from __future__ import annotations

from regard.learn.story.document import Document
from regard.learn.story.narration import narrate

__all__ = ["Document", "narrate"]
