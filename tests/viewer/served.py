"""A small recording on disk, and a client of the app that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draw.recorded import WORDS, write
from regard.recording import Memory, Recording, Writer, open
from regard.recording.schema import CONTENTS
from regard.viewer.opened import Opened

__all__ = ["TOKEN", "make_empty", "make_file", "make_opened"]

TOKEN = "t" * 32


def make_file(path: Path, tokens: Sequence[str] = WORDS, **options: Any) -> Path:
    """Two layers, the first exact; finished."""
    with Writer(path) as writer:
        write(writer, tokens, **options)
    return path


def make_opened(folder: Path, tokens: Sequence[str] = WORDS, **options: Any) -> Opened:
    """The same, open."""
    return Opened(open(make_file(folder / "run.regard", tokens, **options)))


def make_empty() -> Opened:
    """A recording that was begun, and nothing more."""
    store = Memory()
    store.note({"contents": CONTENTS})
    return Opened(Recording(store))
