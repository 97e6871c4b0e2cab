"""One file per rank, as sequence-parallel ranks record one prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.recording import Writer
from support.recordings.synthetic import Chunk, write_recording


def write_rank(
    folder: Path, rank: int, chunks: Sequence[Chunk], *, close: bool = True, **options: Any
) -> Writer:
    """The rows of chunk number `rank` with the keys that are new in it; rank 0 has the tokens."""
    rows = chunks[rank].rows
    part, own = write_recording(chunks=chunks, rows=rows, **({"pieces": 8} | options))
    place = json.loads(own.place.to_json())
    place["segments"] = place["segments"][rank : rank + 1]
    writer = Writer(folder / f"rank-{rank:04}.regard")
    writer.note(part.metadata | {"place/0/L0": json.dumps(place)})
    for name, entry in part.entries.items():
        what, start = name.split("/")[-2:]
        if "tokens" in name and rank:
            continue
        if what == "k":
            whole, first = part.words(name), int(start)
            here = np.arange(first, first + whole.shape[1])
            new = (here >= rows[0]) & (here < rows[1])
            if new.any():
                at = name.rpartition("/")[0] + f"/{here[new][0]}"
                writer.add(at, np.ascontiguousarray(whole[:, new]), entry.metadata)
            continue
        writer.add(name, part.words(name), entry.metadata)
    if close:
        writer.close()
    return writer
