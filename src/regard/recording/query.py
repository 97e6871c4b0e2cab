"""What callers name: rows of a recording, and numbers to multiply with."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import DTypeError, ShapeError
from regard.recording.index import check_recorded, recorded_only
from regard.recording.store import Array
from regard.summary.columns import Span, queries_meant


def rows_meant(queries: Any, recorded: range, count: int) -> Array | None:
    """(n,): the rows meant by `Received.queries`, each once, ascending; None for all recorded ones.
    A number counts back from the last recorded row, and a slice means what of it was recorded."""
    if queries is None:
        return None
    if isinstance(queries, int):
        rows = recorded.start + np.array(queries_meant(queries, len(recorded)), np.int64)
    else:
        rows = np.array(queries_meant(queries, count), np.int64)
        if isinstance(queries, Span):
            rows = recorded_only(rows, recorded)
        check_recorded(rows, recorded, count)
    return None if rows.size == len(recorded) else rows


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
