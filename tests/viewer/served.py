"""A small recording on disk, and a client of the app that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.recording import Memory, Recording, open
from regard.recording.schema import CONTENTS
from regard.viewer.opened import Opened
from support.recordings import WORDS, on_disk

__all__ = ["TOKEN", "make_empty", "make_opened"]

TOKEN = "t" * 32


def make_opened(folder: Path, tokens: Sequence[str] = WORDS, **options: Any) -> Opened:
    """Two layers, the first exact; finished, and open."""
    return Opened(open(on_disk(folder / "run.regard", tokens, **options)))


def make_empty() -> Opened:
    """A recording that was begun, and nothing more."""
    store = Memory()
    store.note({"contents": CONTENTS})
    return Opened(Recording(store))
