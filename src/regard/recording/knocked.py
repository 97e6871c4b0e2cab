"""What knock-outs of heads changed, as a note of a recording keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from regard.errors import FileError

KNOCKED_NOTE: Final = "knocked/"  # of prompt 0: `knocked/0`
_PARTS: Final = ("text", "copying")
_CHANGES: Final = ("delta_logit", "delta_logprob", "kl")
_NUMBERS: Final = (*_CHANGES, *(f"typical_{name}" for name in _CHANGES))

# By head, as `regard.intervene.Evidence.to_dict` says it.
Knocked: TypeAlias = Mapping[str, Mapping[str, Any]]


def write_knocked(found: Knocked) -> str:
    """As the note has it."""
    return json.dumps({label: dict(one) for label, one in found.items()}, separators=(",", ":"))


def read_knocked(text: str) -> dict[str, dict[str, Any]]:
    """Read back; FileError where a number is missing or is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FileError("knock-outs whose note is no JSON") from None
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise FileError("knock-outs whose note is no JSON object of heads")
    for label, one in value.items():
        for part in _PARTS:
            numbers = one.get(part)
            fine = isinstance(numbers, dict) and all(_is_number(numbers.get(n)) for n in _NUMBERS)
            if not fine:
                raise FileError(f"the knock-out of {label!r:.40} without the numbers of {part!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
