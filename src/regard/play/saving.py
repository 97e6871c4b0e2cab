"""A recording in memory → the bytes of a .regard file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from regard.recording import Memory, Recording, Writer


def as_file(recording: Recording) -> bytes:
    """What `regard view` opens: every tensor and every note, in the order they were taken."""
    store = recording.store
    assert isinstance(store, Memory)  # what `record` gives without a path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "play.regard")
        with Writer(path) as writer:
            writer.note(store.metadata)
            for name, entry in store.entries.items():
                kind = "BF16" if entry.dtype == "BF16" else None
                writer.add(name, store.words(name), entry.metadata, dtype=kind)
        return path.read_bytes()
