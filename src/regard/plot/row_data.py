"""One row of a head: all its weights, or the heaviest of them where no more was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, UnavailableError
from regard.plot.subject import Head, Sight

_Numbers: TypeAlias = NDArray[np.float64]

_HEAVIEST: Final = 16


@dataclass(frozen=True)
class RowData:
    """Row `row` as the model counts it."""

    row: int
    token: str | None
    visible: int  # keys
    weights: _Numbers | None  # (keys,): NaN where masked; None where only the heaviest are known
    top: tuple[tuple[int, float], ...]  # heaviest first: key, weight


def make_row(head: Head, sight: Sight, row: int) -> RowData:
    """The row; a negative number counts from the last."""
    own = _own_row(head, row)
    tokens = head.query_tokens or []
    token = tokens[own] if own < len(tokens) else None
    if not head.exact:
        return RowData(own, token, _visible(sight, head, own), None, _kept(head, own))
    seen = np.asarray(head.scores[own, :]) != -np.inf
    weights = np.where(seen, np.asarray(head[own, :], np.float64), np.nan)
    order = np.argsort(-np.nan_to_num(weights), kind="stable")[:_HEAVIEST]
    top = tuple((int(key), float(weights[key])) for key in order if weights[key] > 0)
    return RowData(own, token, int(seen.sum()), weights, top)


def pooled_row(weights: _Numbers, most: int) -> tuple[int, _Numbers]:
    """(keys a point, points): the largest weight of each few neighbours; NaN where all are
    masked."""
    cell = max(-(-weights.size // most), 1)
    largest = np.fmax.reduceat(weights, np.arange(0, weights.size, cell))
    return cell, largest


def _own_row(head: Head, row: int) -> int:
    own = row + head.shape[0] if row < 0 else row
    if own in head.recorded:
        return own
    have = f"{head.recorded.start}–{head.recorded.stop - 1}" if head.recorded else "none"
    verb = "was not recorded" if 0 <= own < head.shape[0] else "does not exist"
    raise InputError(f"row {row} {verb}; {head.label} has {have}")


def _visible(sight: Sight, head: Head, row: int) -> int:
    if not sight.is_complete:
        return head.shape[1]
    return int(sight.among(np.ones(head.shape[1], np.int64))[row - head.recorded.start])


def _kept(head: Head, row: int) -> tuple[tuple[int, float], ...]:
    """The heaviest keys that were kept; UnavailableError where none of this row were."""
    weights, keys = head.stored.get("top_weights"), head.stored.get("top_keys")
    if weights is None or keys is None or weights.edges is None:
        raise UnavailableError(f"{head.label}: {head.why_not}, and its heaviest keys neither")
    at = np.flatnonzero(weights.edges[:-1] == row)
    if not at.size:
        near = int(weights.edges[weights.edges <= row][-1])
        raise UnavailableError(
            f"{head.label}: {head.why_not}, and its heaviest keys were kept of some rows only; "
            f"the nearest is {near}"
        )
    pairs = zip(keys.values[at[0]].tolist(), weights.values[at[0]].tolist(), strict=True)
    return tuple((int(key), float(weight)) for key, weight in pairs if key >= 0 and weight > 0)
