"""What `head[…]` and a question's rows mean: numpy's indexing of a matrix that is never built.

Rows are numbered as the model counted them, whichever of them were recorded. A slice gives the
recorded rows in it; a row that is named must have been recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.errors import DTypeError, InputError, ShapeError
from regard.recording.stores import Array
from regard.summary.columns import Span, queries_meant

_ROWS_AT_ONCE = 64  # gathered cells are grouped by this many rows

_Block = Callable[[Array, Array], Array]  # rows (R,), keys (C,) → (R, C)


def read_cells(index: Any, shape: tuple[int, int], recorded: range, block: _Block) -> Array:
    """The cells that `index` names, in the shape numpy would give them."""
    parts = _complete(index)
    try:
        if _is_outer(parts):
            return _outer(parts, shape, recorded, block)
        return _gather(index, shape, recorded, block)
    except InputError:
        raise
    except (IndexError, TypeError, ValueError) as error:  # ValueError: a step of 0
        raise InputError(f"index {index!r} does not fit a matrix of shape {shape}") from error


def check_recorded(rows: Array, recorded: range, queries: int) -> None:
    """InputError where a row that is named was not recorded."""
    outside = rows[(rows < recorded.start) | (rows >= recorded.stop)]
    if outside.size:
        held = f"rows {recorded.start}–{recorded.stop - 1}" if recorded else "no rows at all"
        raise InputError(
            f"row {int(outside.flat[0])} was not recorded; this recording has {held} of {queries}"
        )


def recorded_only(rows: Array, recorded: range) -> Array:
    """The recorded ones among rows (R,)."""
    return rows[(rows >= recorded.start) & (rows < recorded.stop)]


def _complete(index: Any) -> list[Any]:
    """Two entries, with the dots and missing axes written out; another number of them where the
    index has None, or is wrong."""
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [np.asarray(p) if isinstance(p, list | range) else p for p in parts]
    dots = [n for n, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        return []
    at = dots[0] if dots else len(parts)
    missing = [slice(None)] * (2 - len(parts) + len(dots))
    return [*parts[:at], *missing, *parts[at + len(dots) :]]


def _is_outer(parts: list[Any]) -> bool:
    """Whether rows and keys are chosen apart: an integer or a slice each, or one list."""
    if len(parts) != 2:
        return False
    lists = [part for part in parts if not isinstance(part, slice) and not _is_int(part)]
    return not lists or (len(lists) == 1 and np.ndim(lists[0]) == 1)


def _is_int(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool | np.bool_)


def _outer(parts: list[Any], shape: tuple[int, int], recorded: range, block: _Block) -> Array:
    rows, cols = (np.arange(n)[_whole(part)] for n, part in zip(shape, parts, strict=True))
    if isinstance(parts[0], slice):
        rows = recorded_only(rows, recorded)
    check_recorded(np.atleast_1d(rows), recorded, shape[0])
    found = block(np.atleast_1d(rows), np.atleast_1d(cols))
    return found.reshape(rows.shape + cols.shape)[()]


def _whole(part: Any) -> Any:
    """An empty list has no dtype of its own."""
    return part.astype(np.int64) if isinstance(part, np.ndarray) and not part.size else part


def _gather(index: Any, shape: tuple[int, int], recorded: range, block: _Block) -> Array:
    """Cell by cell: the row and the key of every cell, taken from matrices of stride 0."""
    row_of = np.broadcast_to(np.arange(shape[0])[:, None], shape)[index]
    col_of = np.broadcast_to(np.arange(shape[1]), shape)[index]
    rows, cols = row_of.reshape(-1), col_of.reshape(-1)
    check_recorded(rows, recorded, shape[0])
    found = np.empty(rows.size, block(rows[:0], cols[:0]).dtype)
    strip = rows // _ROWS_AT_ONCE
    order = np.argsort(strip, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(strip[order])) + 1):
        own, at_row = np.unique(rows[members], return_inverse=True)
        keys, at_col = np.unique(cols[members], return_inverse=True)
        if members.size:
            found[members] = block(own, keys)[at_row, at_col]
    return found.reshape(row_of.shape)[()]


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
