"""What a mask is, and how masks combine: & | ~."""

from __future__ import annotations

import enum
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from regard.arrays import host, is_bool
from regard.declare import Declared, check_parts, part
from regard.errors import DTypeError, InputError
from regard.mask.spans import Spans, both_of, either_of

if TYPE_CHECKING:
    from regard.mask.kinds import Padding, Window
    from regard.mask.packed import Pack

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
    """Which query may see which key. Masks combine with &, | and ~."""

    family = "mask"

    @abstractmethod
    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Booleans broadcastable to (*batch, heads, len(i), len(j)); True = may attend."""

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Whether none, some or all of a tile may be seen, over every batch entry and head.
        SOME is always a correct answer; NONE and ALL are promises that let tiles be skipped."""
        return Verdict.SOME if rows and cols else Verdict.NONE

    def spans(self, extent: Extent) -> Spans | None:
        """The mask as one interval of keys per row; None if it is not one."""
        return None

    def intervals(self, extent: Extent) -> tuple[Spans | None, Mask | None]:
        """(intervals, rest): what the mask allows is what both allow; None allows everything."""
        spans = self.spans(extent)
        return (None, self) if spans is None else (spans, None)

    # ── what it is, to those who treat such masks in a way of their own ──────────────────────

    def as_window(self) -> Window | None:
        """The mask as a window around each query's position; None if it is not one."""
        return None

    def as_padding(self) -> Padding | None:
        """The mask as padding alone; None if it is more than that."""
        return None

    def as_pack(self) -> Pack | None:
        """Where packed sequences begin, for a mask that separates them; None otherwise."""
        return None

    def conditions(self) -> tuple[Mask, ...]:
        """The masks that all have to allow a cell: several where & joined them."""
        return (self,)

    def shifts(self, i: Any, extent: Extent) -> Any:
        """(len(i),): query i stands at key i + shift, where distances are measured; None where the
        last query stands at the last key, as it does without a word of the mask."""
        return None

    def seen_from(self, query_start: int, key_start: int, queries: int, keys: int) -> Mask:
        """The mask of a part: its query 0 is query_start of so many queries; keys likewise."""
        return Part(self, query_start, key_start, queries, keys)

    def of_sequence(self, n: int, *part: int) -> Mask | None:
        """The mask of the n-th of packed sequences, which is this part; None: it sees all."""
        return self.seen_from(*part)

    # ── combining ────────────────────────────────────────────────────────────────────────────

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

    def intervals(self, extent: Extent) -> tuple[Spans | None, Mask | None]:
        left, left_rest = self.left.intervals(extent)
        right, right_rest = self.right.intervals(extent)
        rests = [rest for rest in (left_rest, right_rest) if rest is not None]
        spans = both_of(left, right) if left and right else left or right
        return spans, None if not rests else rests[0] if len(rests) == 1 else Both(*rests)

    def conditions(self) -> tuple[Mask, ...]:
        return *self.left.conditions(), *self.right.conditions()

    def shifts(self, i: Any, extent: Extent) -> Any:
        return _first_shifts(self, i, extent)

    def of_sequence(self, n: int, *part: int) -> Mask | None:
        left, right = (side.of_sequence(n, *part) for side in (self.left, self.right))
        if left is None or right is None:
            return right if left is None else left
        return Both(left, right)

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

    def intervals(self, extent: Extent) -> tuple[Spans | None, Mask | None]:
        (left, left_rest), (right, right_rest) = (
            one.intervals(extent) for one in (self.left, self.right)
        )
        whole = left_rest is None and right_rest is None
        joined = either_of(left, right) if left and right and whole else None
        return (None, self) if joined is None else (joined, None)

    def shifts(self, i: Any, extent: Extent) -> Any:
        return _first_shifts(self, i, extent)

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

    def shifts(self, i: Any, extent: Extent) -> Any:
        return self.mask.shifts(i, extent)

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

    def intervals(self, extent: Extent) -> tuple[Spans | None, Mask | None]:
        """The whole problem's intervals, for these rows, counted from the part's first key."""
        spans, rest = self.mask.intervals(self.within(extent))
        if spans is not None:
            rows = slice(self.query_start, self.query_start + extent.queries)
            spans = Spans(
                np.maximum(spans.low[..., rows] - self.key_start, 0),
                np.minimum(spans.high[..., rows] - self.key_start, extent.keys),
            )
        return spans, None if rest is None else replace(self, mask=rest)

    def shifts(self, i: Any, extent: Extent) -> Any:
        whole = self.mask.shifts(i + self.query_start, self.within(extent))
        return None if whole is None else whole + (self.query_start - self.key_start)

    def seen_from(self, query_start: int, key_start: int, queries: int, keys: int) -> Mask:
        """A part of a part is a part of the whole, whose sizes stay."""
        down, across = self.query_start + query_start, self.key_start + key_start
        return replace(self, query_start=down, key_start=across)


def _first_shifts(mask: Both | Either, i: Any, extent: Extent) -> Any:
    """Of the side that says where queries stand."""
    left = mask.left.shifts(i, extent)
    return mask.right.shifts(i, extent) if left is None else left


def as_mask(given: Any) -> Mask:
    """A mask as it is; a boolean array as a Table; anything else is an error that says so."""
    if isinstance(given, Mask):
        given.check_fields()
        return given.traceable()
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
