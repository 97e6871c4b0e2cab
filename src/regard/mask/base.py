"""What a mask is, and how masks combine: & | ~."""

from __future__ import annotations

import enum
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from regard.arrays import host, is_bool
from regard.declare import Declared, check_parts, part
from regard.errors import DTypeError, InputError

if TYPE_CHECKING:
    from regard.mask.spans import Spans

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


class Mask(Declared):
    """A rule that says which query may see which key. Combine with & | ~."""

    family = "mask"

    @abstractmethod
    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Booleans broadcastable to (*batch, heads, len(i), len(j)); True = may attend."""

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Whether none, some or all of a tile may be seen, over every batch entry and head.
        SOME is always a correct answer; NONE and ALL are promises that let tiles be skipped."""
        return Verdict.SOME if rows and cols else Verdict.NONE

    def spans(self, extent: Extent) -> Spans | None:
        """The mask as one interval of keys for each row, where it is that."""
        return None

    def __and__(self, other: Any) -> Mask:
        return Both(self, as_mask(other))

    def __rand__(self, other: Any) -> Mask:
        return Both(as_mask(other), self)

    def __or__(self, other: Any) -> Mask:
        return Either(self, as_mask(other))

    def __ror__(self, other: Any) -> Mask:
        return Either(as_mask(other), self)

    def __invert__(self) -> Mask:
        return Not(self)

    def __bool__(self) -> bool:
        raise DTypeError("a mask has no truth value; combine masks with & | ~, not and/or/not")

    # torch and numpy must not try to spread a mask over an array in `array & mask`.
    __array_ufunc__ = None


class Both(Mask):
    """left & right."""

    tag = "both/1"
    left: Mask = part()
    right: Mask = part()

    def __post_init__(self) -> None:
        check_parts(self, Mask)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return self.left.allows(i, j, extent) & self.right.allows(i, j, extent)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        return meet(self.left.verdict(rows, cols, extent), self.right.verdict(rows, cols, extent))

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


class Either(Mask):
    """left | right."""

    tag = "either/1"
    left: Mask = part()
    right: Mask = part()

    def __post_init__(self) -> None:
        check_parts(self, Mask)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return self.left.allows(i, j, extent) | self.right.allows(i, j, extent)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        two = {self.left.verdict(rows, cols, extent), self.right.verdict(rows, cols, extent)}
        if Verdict.ALL in two:
            return Verdict.ALL
        return Verdict.NONE if two == {Verdict.NONE} else Verdict.SOME

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


class Not(Mask):
    """~mask."""

    tag = "not/1"
    mask: Mask = part()

    def __post_init__(self) -> None:
        check_parts(self, Mask)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return ~self.mask.allows(i, j, extent)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        if not rows or not cols:
            return Verdict.NONE
        turned = {Verdict.NONE: Verdict.ALL, Verdict.ALL: Verdict.NONE, Verdict.SOME: Verdict.SOME}
        return turned[self.mask.verdict(rows, cols, extent)]

    def __repr__(self) -> str:
        return f"~{self.mask!r}"


class Part(Mask):
    """A mask seen from a part of its problem: local query i is query i + query_start of the whole;
    keys likewise."""

    tag = "part/1"
    mask: Mask = part()
    query_start: int
    key_start: int
    queries: int  # of the whole problem
    keys: int

    def __post_init__(self) -> None:
        check_parts(self, Mask)
        check_places(self.query_start, self.key_start, self.queries, self.keys)

    def within(self, extent: Extent) -> Extent:
        """The extent of the whole problem, from that of the part."""
        return Extent(self.queries, self.keys, extent.batch, extent.heads)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return self.mask.allows(i + self.query_start, j + self.key_start, self.within(extent))

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        return self.mask.verdict(
            range(rows.start + self.query_start, rows.stop + self.query_start),
            range(cols.start + self.key_start, cols.stop + self.key_start),
            self.within(extent),
        )


def as_mask(given: Any) -> Mask:
    """A mask as it is; a boolean array as a Table; anything else is an error that says so."""
    if isinstance(given, Mask):
        given.check_fields()
        return given
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        from regard.mask.kinds import Table

        return Table(given)
    raise DTypeError(
        f"mask is a {type(given).__name__}; give a regard mask such as regard.Causal(), "
        "or a boolean array broadcastable to (…, heads, queries, keys)"
    )


def check_align(align: str) -> None:
    """Raise InputError unless align is one of the two words."""
    if align not in ("start", "end"):
        raise InputError(f"align={align!r}; give 'end' (as in decoding) or 'start' (as torch)")


def check_places(*places: Any) -> None:
    """Raise InputError unless all are whole numbers; while torch traces, they may be symbols."""
    for place in places:
        if not hasattr(place, "__index__"):
            raise InputError(f"{place!r} is no place; give whole numbers, counted in tokens")


def meet(a: Verdict, b: Verdict) -> Verdict:
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
