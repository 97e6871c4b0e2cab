"""What is asked of a head, as a value; and the forms in which people ask it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.errors import DTypeError, InputError, ShapeError
from regard.recording.index import check_recorded, recorded_only
from regard.recording.store import Array

_MOST_CELLS = 512  # a side of a map, where the caller names no cell size
_MOST_TOP = 512  # heaviest keys of a row that may be asked for even where there are fewer
_LARGEST_CELL = 2**31
_PLAIN = {
    "Entropy": "entropy", "Visible": "visible", "MaxScore": "max_score", "MaxLogit": "max_logit",
    "Distance": "distance", "Concentration": "concentration", "Offsets": "offsets",
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What is asked, with its parameters; equal ones have equal answers."""

    kind: str
    k: int = 0
    cell: int = 0
    how: Literal["mean", "max"] = "mean"
    per: Literal["sum", "visible"] = "sum"
    rows: tuple[int, ...] | None = None  # of received, ascending; None for all recorded


def top_question(k: int, keys: int) -> Question:
    """The k heaviest keys, of so many."""
    if type(k) is not int or k < 1:
        raise InputError(f"top(k={k!r}); give a whole number ≥ 1")
    if k > max(keys, _MOST_TOP):
        raise InputError(f"top(k={k}): a row has {keys} keys; give at most {keys}")
    return Question("top", k=k)


def pooled_question(
    cell: int | None, how: Literal["mean", "max"], shape: tuple[int, int]
) -> Question:
    """A map, at most 512 cells a side unless told."""
    if cell is not None and (type(cell) is not int or not 1 <= cell <= _LARGEST_CELL):
        raise InputError(
            f"pooled(cell={cell!r}); give a whole number from 1 to {_LARGEST_CELL}, or None"
        )
    if how not in ("mean", "max"):
        raise InputError(f"pooled(how={how!r}); give 'mean' or 'max'")
    size = -(-max(*shape, 1) // _MOST_CELLS) if cell is None else cell
    return Question("pooled", cell=size, how=how)


def received_question(
    queries: Any, per: Literal["sum", "visible"], recorded: range, count: int
) -> Question:
    """The mass of keys, over some rows."""
    if per not in ("sum", "visible"):
        raise InputError(f"received(per={per!r}); give 'sum' or 'visible'")
    rows = _rows(queries, recorded, count)
    everyone = rows.size == len(recorded)
    return Question("received", per=per, rows=None if everyone else tuple(rows.tolist()))


def _rows(queries: Any, recorded: range, count: int) -> Array:
    """(n,): the rows meant by `queries`, each once, ascending."""
    everyone = np.arange(recorded.start, recorded.stop)
    if queries is None:
        return everyone
    if isinstance(queries, int) and not isinstance(queries, bool):
        if queries < 1:
            raise InputError(f"queries={queries}; a number means the last n queries, so n ≥ 1")
        return everyone[-queries:]
    if not isinstance(queries, range) and hasattr(queries, "step"):  # a slice, or its like
        span = slice(queries.start, queries.stop, queries.step)
        return recorded_only(np.unique(np.arange(count)[span]), recorded)
    rows = np.asarray(list(queries) if isinstance(queries, range) else queries)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputError(
            f"queries={queries!r}; give a slice, a range, whole-number indices, "
            "or a number n for the last n queries"
        )
    rows = rows.astype(np.int64)
    if np.any((rows < -count) | (rows >= count)):
        wrong = int(rows[(rows < -count) | (rows >= count)][0])
        raise InputError(f"query {wrong} does not exist; there are {count} queries")
    rows = np.unique(rows % count) if count else rows
    check_recorded(rows, recorded, count)
    return rows


def question_of(summary: Any, recorded: range, shape: tuple[int, int]) -> Question | None:
    """A value of `regard.summary` as a question; by its name, since they need torch and we do not.
    None for what has a sweep of its own."""
    kind = type(summary).__name__
    if kind in _PLAIN:
        return Question(_PLAIN[kind])
    if kind == "Top":
        return top_question(summary.k, shape[1])
    if kind == "Peak":
        return top_question(1, shape[1])
    if kind == "Pooled":
        return pooled_question(summary.cell, summary.how, shape)
    if kind == "Received":
        return received_question(summary.queries, summary.per, recorded, shape[0])
    if kind == "Matching":
        return None
    raise InputError(f"{summary!r} is not a summary; give e.g. regard.Entropy()")


def as_columns(x: Any, inner: int, product: str, what: str) -> Array:
    """(inner, M): numbers to multiply with."""
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{product}: x has dtype {array.dtype}; give real numbers")
    columns = array[:, None] if array.ndim == 1 else array
    if columns.ndim != 2 or columns.shape[0] != inner:
        raise ShapeError(
            f"{product}: the matrix has {inner} {what}, x has shape {array.shape}; "
            f"give ({inner},) or ({inner}, M)"
        )
    return columns
