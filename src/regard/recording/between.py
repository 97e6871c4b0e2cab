"""`regard.divergence` between recorded heads, a block of rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from regard.divergences import DivergenceOptions, mixed, row_divergence
from regard.errors import InputError, ShapeError
from regard.recording.indexing import rows_meant
from regard.recording.stores import Array

if TYPE_CHECKING:
    from regard.recording.head import Head

_CELLS: Final = 2**21  # of all heads, at once


def diverge(
    teacher: tuple[Head, ...], student: tuple[Head, ...], asked: DivergenceOptions
) -> Array:
    """(G, n): one number for each pair of heads and row; (n,) between two single heads."""
    every = (*teacher, *student)
    for head in every:
        if type(head) is not type(student[0]):
            raise InputError(f"a {type(head).__name__} among recorded heads; give heads alone")
        _check(head, teacher[0])
    recorded = range(
        max(head.recorded.start for head in every), min(head.recorded.stop for head in every)
    )
    chosen = rows_meant(asked.queries, recorded, student[0].shape[0])
    rows = np.arange(recorded.start, recorded.stop) if chosen is None else chosen
    pairing = asked.pairing(len(teacher), len(student))
    count = max(1, _CELLS // max(len(every) * student[0].shape[1], 1))
    found = np.empty((len(pairing.teacher), rows.size))
    has_sink = not pairing.over_keys and any(head.sink_mass().any() for head in every)
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in range(0, rows.size, count):
            here = rows[start : start + count]
            sides = [np.stack([_log_weights(one, here, has_sink) for one in side])
                     for side in (teacher, student)]  # fmt: skip
            p = mixed(sides[0], pairing.teacher, pairing.over_keys)
            q = mixed(sides[1], pairing.student, pairing.over_keys)
            found[:, start : start + count] = row_divergence(asked.how, p, q)
    is_pair = len(every) == 2 and asked.heads == "each"
    return found[0] if is_pair else found


def _check(head: Any, first: Head) -> None:
    if not head.exact:
        raise InputError(f"{head.label}: {head.why_not}; a divergence needs its q and k")
    if head.shape != first.shape:
        raise ShapeError(
            f"{first.label} has {first.shape}, {head.label} {head.shape}: queries and keys must be "
            "the same; regard diff compares recordings of different texts"
        )


def _log_weights(head: Head, rows: Array, has_sink: bool) -> Array:
    """(R, S): score − lse, in double precision; the sink behind the keys where there is one."""
    base, log = head._replay.state(rows)
    lse = base.astype(np.float64) + log
    scores = head.scores[rows, :].astype(np.float64)
    if has_sink:
        share = head.sink_mass()[rows - head.recorded.start]
        scores = np.c_[scores, np.log(share.astype(np.float64)) + np.where(lse == -np.inf, 0, lse)]
    return np.where((lse == -np.inf)[:, None], -np.inf, scores - lse[:, None])
