"""The table of patterns, in the order in which they are told."""

from __future__ import annotations

from regard.study.pattern.base import Pattern
from regard.study.pattern.copies import Copies
from regard.study.pattern.delimiter import Delimiter
from regard.study.pattern.distance import AtDistance, BestOffset, Near
from regard.study.pattern.retrieval import Needle, Retrieval
from regard.study.pattern.shape import Inactive, Saturated, Sharp, Uniform
from regard.study.pattern.sink import Sink


def every_pattern(needle: Needle | None = None) -> list[Pattern]:
    """All of them; without a needle nobody can tell who retrieves it."""
    near = Near(8)
    wide = Near(64, near)
    return [
        Sink(),
        AtDistance("previous", 1),
        AtDistance("self", 0),
        BestOffset(),
        near,
        wide,
        Copies("duplicate-token", "duplicate", 0),
        Copies("prefix-matching", "prefix", 1),
        Delimiter(),
        Retrieval(needle),
        Uniform((near, wide)),
        Sharp(),
        Saturated(),
        Inactive(),
    ]
