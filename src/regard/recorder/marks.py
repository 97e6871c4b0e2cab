"""Earlier copies of each token, and what followed them, as marks that a sweep compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.recorder.host import send
from regard.shapes import AttentionShape
from regard.summary import Matching

_Ids = NDArray[np.int64]


def matchings(
    ids: list[_Ids],
    rows: list[range],
    keys: list[range],
    shape: AttentionShape,
    device: torch.device,
) -> tuple[Matching | None, Matching | None]:
    """For each sequence its token ids up to its last row; which rows and keys of the call are
    real. Nothing where the ids are not those of the keys."""
    made = [_marks(*one, shape) for one in zip(ids, rows, keys, strict=True)]
    if any(marks is None for marks in made):
        return None, None
    queries, copies, after = (
        send(torch.from_numpy(np.stack(marks)).reshape(*shape.batch, -1), device)
        for marks in zip(*(m for m in made if m is not None), strict=True)
    )
    return Matching(queries, copies), Matching(queries, after)


def _marks(ids: _Ids, rows: range, keys: range, shape: Any) -> tuple[_Ids, _Ids, _Ids] | None:
    """Ids of queries and keys, and of the token before each key; below 0 where there is none."""
    if len(keys) > len(ids) or len(rows) > len(ids):
        return None
    known = ids[len(ids) - len(keys) :]
    before = np.concatenate([[-1], ids])[len(ids) - len(keys) : len(ids)]
    marks = [np.full(count, -1, np.int64) for count in (shape.queries, shape.keys, shape.keys)]
    marks[0] -= 1  # a query that is no token has no copy among keys that are none
    marks[0][rows.start : rows.stop] = ids[len(ids) - len(rows) :]
    marks[1][keys.start : keys.stop] = known
    marks[2][keys.start : keys.stop] = before
    return marks[0], marks[1], marks[2]
