"""Answers as JSON, which has neither NaN nor infinities."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def as_json(values: ArrayLike) -> Any:
    """Numbers as JSON has them; what is no finite number is null."""
    given = np.asarray(values)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        numbers = given.astype(np.object_)
        numbers[~np.isfinite(given)] = None
        return numbers.tolist()
    return given.tolist()


def as_text(value: Any) -> bytes:
    """JSON in ASCII, so that a token that is no valid Unicode passes; null for NaN."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        fine = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(fine, separators=(",", ":"))
    return text.encode("ascii")
