"""What the command line names inside a recording: ranges (10:20, :40, -40: and 7, as Python would
slice) and texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.recording import PromptView, Recording

_SPAN = re.compile(r"\s*(-?[0-9]{1,12})?\s*(?:(:)\s*(-?[0-9]{1,12})?)?\s*")


def parse_span(option: str, text: str | None, known: range, count: int | None = None) -> range:
    """The part of `known` that is meant; without a text all of it.

    Negative numbers count from `count`, by default the end of `known`. A range that is empty, or
    of which nothing is known, is an InputError.
    """
    if text is None:
        return known
    match = _SPAN.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        raise InputError(f"{option} {text!r}: give a range such as 10:20, :40, -40: or 7")
    size = known.stop if count is None else count
    first = known.start if match[1] is None else _place(match[1], size)
    last = first + 1 if match[2] is None else known.stop
    last = _place(match[3], size) if match[3] is not None else last
    if not known or first < known.start or last > known.stop or first >= last:
        have = f"{known.start}:{known.stop}" if known else "nothing"
        raise InputError(f"{option} {text}: not a part of what there is; that is {have}")
    return range(first, last)


def pick_prompt(recording: Recording, number: int) -> PromptView:
    """One of the recorded texts; InputError says which there are."""
    return recording.prompt(number)


def _place(text: str, count: int) -> int:
    number = int(text)
    return number + count if number < 0 else number
