"""Notes that are added to a recording after its writer has closed it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from regard.errors import FileError
from regard.files import is_folder
from regard.recording.append import Log
from regard.recording.catalogue import Catalogue
from regard.recording.folder import rank_files
from regard.recording.layout import META
from regard.recording.source import Source, lock
from regard.recording.write import note_head


def annotate(path: str | os.PathLike[str], notes: Mapping[str, str]) -> None:
    """Append notes and a new index; no byte that is there is touched. Of a folder of ranks the
    lowest takes them: its word counts."""
    given = Path(path)
    file = next(iter(rank_files(given).values())) if is_folder(given) else given
    head = note_head(notes)
    source = Source(file, writable=True)
    try:
        lock(source.file.fileno(), source.name)
        log = end_of(source)
        log.append(META, head, b"")
        log.append_index()
    finally:
        source.close()


def end_of(source: Source) -> Log:
    """Where to go on; FileError where something behind it would be written over."""
    frames = Catalogue(source)
    if not frames.load_index():
        frames.walk()
    if frames.damage or frames.end != source.size():
        raise FileError(
            f"{source.name}: damaged, so nothing is added to it; "
            "`regard verify --repair` cuts off a torn tail"
        )
    return Log.behind(source, frames)
