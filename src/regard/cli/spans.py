"""What the command line names inside a recording: ranges (10:20, :40, -40: and 7, as Python would
slice)."""

from __future__ import annotations

import re

from regard.errors import InputError

_SPAN = re.compile(r"\s*(-?[0-9]{1,12})?\s*(?:(:)\s*(-?[0-9]{1,12})?)?\s*")


def read_span(option: str, text: str | None) -> slice | int | None:
    """What a text means; None without one."""
    if text is None:
        return None
    match = _SPAN.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        raise InputError(f"{option} {text!r}: give a range such as 10:20, :40, -40: or 7")
    first, last = (None if one is None else int(one) for one in (match[1], match[3]))
    return slice(first, last) if match[2] or first is None else first


def parse_span(option: str, text: str | None, known: range, count: int | None = None) -> range:
    """The part of `known` that is meant, see `part_of`; without a text all of it."""
    from regard.views.parts import part_of

    return part_of(option, read_span(option, text), known, count)
