"""A finished recording opened once more for writing, behind what is there."""

from __future__ import annotations

import os
from pathlib import Path

from regard.recording.annotate import end_of
from regard.recording.source import Source, lock
from regard.recording.write import Writer


def extend(path: str | os.PathLike[str]) -> Writer:
    """A writer that goes on where the last one stopped; no byte that is there is touched."""
    source = Source(Path(path), writable=True)
    try:
        lock(source.file.fileno(), source.name)
        log = end_of(source)
        log.descriptor = os.dup(source.file.fileno())  # the lock is the file's: both hold it
    finally:
        source.close()
    return Writer.behind(Path(path), log)
