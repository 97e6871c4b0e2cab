"""Numbers from JSON files, with errors that name the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError, ShapeError
from regard.learn.labels import printable
from regard.learn.steps import Array

__all__ = ["as_matrix", "as_vector", "read_json"]

_MAX_BYTES = 32 * 2**20
_MAX_SIDE = 1024
_MAX_NUMBER = 1e12  # products of four such numbers still fit a float


def read_json(path: Path, option: str) -> Any:
    """The document in the file; `option` is what the user typed before its name."""
    given = f"{option} {printable(str(path))}"
    try:
        return json.loads(_text(path, given), parse_int=_whole)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{given}: not valid JSON at {where}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{given}: nested too deep; give matrices as lists of rows") from None


def _whole(digits: str) -> float | int:
    """Python refuses to read integers of thousands of digits; as floats they are infinite."""
    return int(digits) if len(digits) < 20 else float(digits)


def _text(path: Path, given: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise InputError(f"{given}: more than {_MAX_BYTES >> 20} MiB; give a smaller file")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{given}: no such file; give a JSON file that exists") from None
    except OSError as error:
        raise InputError(f"{given}: cannot be read ({error.strerror}); give a JSON file") from None
    except UnicodeDecodeError:
        raise InputError(f"{given}: not UTF-8 text; give a JSON file") from None


def as_matrix(value: Any, name: str) -> Array:
    """A list of rows of equal length, every cell a finite number."""
    if not isinstance(value, list) or not value or not all(isinstance(r, list) for r in value):
        raise InputError(f"{name} is not a matrix; give a list of rows, as [[1, 0], [0, 1]]")
    _check_side(len(value), name, "rows")
    rows = [as_vector(row, f"{name}, row {r + 1}") for r, row in enumerate(value)]
    for r, row in enumerate(rows):
        if row.size != rows[0].size:
            raise ShapeError(
                f"{name} is ragged: row 1 has {rows[0].size} numbers and row {r + 1} has "
                f"{row.size}; give rows of equal length"
            )
    return np.stack(rows)


def as_vector(value: Any, name: str) -> Array:
    """A non-empty list of finite numbers."""
    if not isinstance(value, list) or not value:
        raise InputError(f"{name} is not a list of numbers; give one, as [1, 0, 1, 0]")
    _check_side(len(value), name, "numbers")
    return np.array([_number(cell, f"{name}, column {c + 1}") for c, cell in enumerate(value)])


def _check_side(given: int, name: str, what: str) -> None:
    if given > _MAX_SIDE:
        raise ShapeError(f"{name} has {given} {what}; the lesson takes at most {_MAX_SIDE}")


def _number(cell: Any, name: str) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        raise InputError(f"{name} is {_brief(cell)}, not a number; give a finite number")
    # Written so that NaN, which compares with nothing, is refused as well.
    if not abs(cell) <= _MAX_NUMBER:
        raise InputError(f"{name} is {_brief(cell)}; give a finite number up to 1e12 in size")
    return float(cell)


def _brief(cell: Any) -> str:
    text = json.dumps(cell)
    return text if len(text) <= 30 else text[:29] + "…"
