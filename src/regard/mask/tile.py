"""The words a tile is described with: its problem's extent, where queries stand, its verdict."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from regard.errors import InputError
from regard.mask.arrays import host, is_bool

__all__ = ["Align", "Extent", "Verdict", "both", "check_align", "length_verdict", "real_verdict"]

Align: TypeAlias = Literal["start", "end"]


class Verdict(enum.Enum):
    """How much of a tile may be seen."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class Extent:
    """The size of the whole attention problem a tile belongs to."""

    queries: int
    keys: int
    batch: tuple[int, ...] = ()
    heads: int = 1

    @property
    def full(self) -> tuple[int, ...]:
        """(*batch, heads, queries, keys): the shape of the matrix that is never built."""
        return (*self.batch, self.heads, self.queries, self.keys)

    def shift(self, align: Align) -> int:
        """Query i stands at key position i + shift."""
        return self.keys - self.queries if align == "end" else 0


def check_align(align: str) -> None:
    """Raise InputError unless align is one of the two words."""
    if align not in ("start", "end"):
        raise InputError(f"align={align!r}; give 'end' (as in decoding) or 'start' (as torch)")


def both(a: Verdict, b: Verdict) -> Verdict:
    """The verdict on the overlap of two masks: NONE wins."""
    if Verdict.NONE in (a, b):
        return Verdict.NONE
    return Verdict.ALL if (a, b) == (Verdict.ALL, Verdict.ALL) else Verdict.SOME


def length_verdict(lengths: Any, span: range) -> Verdict:
    """The verdict on tokens `span` where entry b has lengths[b] of them."""
    numbers = host(lengths)
    if not span or numbers.size == 0 or span.start >= numbers.max():
        return Verdict.NONE
    return Verdict.ALL if span.stop <= numbers.min() else Verdict.SOME


def real_verdict(given: Any, span: range) -> Verdict:
    """The verdict on tokens `span` under lengths (*batch,) or booleans (*batch, tokens)."""
    if not is_bool(given):
        return length_verdict(given, span)
    flags = host(given)[..., span.start : span.stop]
    return Verdict.ALL if flags.all() else Verdict.SOME if flags.any() else Verdict.NONE
