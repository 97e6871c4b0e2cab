"""The tables of patterns, in the order in which they are told: of a text, of a picture, of both in
one."""

from __future__ import annotations

from regard.study.facts import PlaceFacts
from regard.study.patches import PatchFacts, near, same_column, same_place, same_row
from regard.study.pattern.base import Pattern
from regard.study.pattern.connected import Connected
from regard.study.pattern.copies import Copies
from regard.study.pattern.delimiter import Delimiter
from regard.study.pattern.distance import AtDistance, BestOffset, Near
from regard.study.pattern.keys import Border, Register, SinkPatch
from regard.study.pattern.related import Related, RelatedMany
from regard.study.pattern.retrieval import Needle, Retrieval
from regard.study.pattern.shape import Inactive, Saturated, Sharp, Uniform
from regard.study.pattern.sink import Sink


def every_pattern(needle: Needle | None = None) -> list[Pattern]:
    """All of a text's; without a needle nobody can tell who retrieves it."""
    words = _of_words(needle)
    return [*words, *_of_shape([one for one in words if isinstance(one, Near)])]


def patterns_of(place: PlaceFacts, needle: Needle | None = None) -> list[Pattern]:
    """Those that mean something for the place: a text's of words, a picture's of patches."""
    patches = place.patches
    if patches is None:
        return every_pattern(needle)
    is_self = place.place.kind == "self"
    has_words = is_self and bool(patches.keys.text.any())
    words = _of_words(needle) if has_words else [AtDistance("self", 0)] if is_self else []
    others = _of_patches(patches, is_self, has_words)
    narrow = (Near, RelatedMany)
    return [*words, *others, *_of_shape([p for p in [*words, *others] if isinstance(p, narrow)])]


def _of_words(needle: Needle | None) -> list[Pattern]:
    near_by = Near(8)
    return [
        Sink(),
        AtDistance("previous", 1),
        AtDistance("self", 0),
        BestOffset(),
        near_by,
        Near(64, near_by),
        Copies("duplicate-token", "duplicate", 0),
        Copies("prefix-matching", "prefix", 1),
        Delimiter(),
        Retrieval(needle),
    ]


def _of_patches(patches: PatchFacts, is_self: bool, has_words: bool) -> list[Pattern]:
    """Where a patch looks from, where queries are patches too; then what it looks at."""
    if not patches.axes[1].grids():
        return []
    from_patches: list[Related] = []
    if is_self:
        beside = RelatedMany("near-1", near(1))
        lines = [
            RelatedMany("same-row", same_row, (beside,)),
            RelatedMany("same-column", same_column, (beside,)),
        ]
        from_patches = [beside, RelatedMany("near-2", near(2), (beside, *lines)), *lines]
        if patches.has_frames:
            steps = (("previous-frame", -1), ("next-frame", 1))
            from_patches += [Related(name, same_place(step)) for name, step in steps]
    ring: list[Pattern] = [] if patches.is_windowed else [Border()]
    alone: list[Pattern] = [Register()] if patches.keys.register.any() else []
    alone += [SinkPatch(beside_sinks=has_words)]
    return [*from_patches, *ring, *alone, Connected([*from_patches, *ring])]


def _of_shape(narrow: list[Pattern]) -> list[Pattern]:
    return [Uniform(narrow), Sharp(), Saturated(), Inactive()]
