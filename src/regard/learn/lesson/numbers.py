"""The numbers a lesson starts from: out of a JSON file, or made up.

What is wrong in a file is named with its place. What is made up is the same on every machine and
in every run: the raw words of PCG64 are promised never to change between numpy versions, the
distributions of `Generator` are not; so the uniform numbers are made from the raw words here.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError, ShapeError
from regard.learn.text import printable, read_text

_MAX_MIB = 32
_MAX_SIDE = 1024
_MAX_NUMBER = 1e12  # products of four such numbers still fit a float


def read_json(path: Path, option: str) -> Any:
    """The document in the file; `option` is what the user typed before its name."""
    try:
        text = read_text(path, mib=_MAX_MIB, wanted="a JSON file")
    except InputError as error:
        raise InputError(f"{option} {error}") from None
    given = f"{option} {printable(str(path))}"
    try:
        return json.loads(text, parse_int=_whole)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{given}: not valid JSON at {where}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{given}: nested too deep; give matrices as lists of rows") from None


def _whole(digits: str) -> float | int:
    """Python refuses to read integers of thousands of digits; as floats they are infinite."""
    return int(digits) if len(digits) < 20 else float(digits)


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


def draws(
    seed: Sequence[int], shape: tuple[int, ...], *, spread: float = 1.0, decimals: int = 2
) -> Array:
    """Numbers of mean 0 and deviation `spread`, rounded so that they can be worked by hand."""
    words = np.random.PCG64(list(seed)).random_raw(math.prod(shape))
    unit = (np.asarray(words) >> np.uint64(11)) * 2.0**-53  # 53 bits: uniform on [0, 1)
    # A uniform number on ±√3 has variance 1. Adding zero turns −0 into 0.
    return np.round((2.0 * unit - 1.0) * math.sqrt(3.0) * spread, decimals).reshape(shape) + 0.0


def seed_of(word: str) -> int:
    """The seed of a word: the same whatever its case and however its accents are encoded."""
    plain = unicodedata.normalize("NFC", word.lower())
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:8], "big")
