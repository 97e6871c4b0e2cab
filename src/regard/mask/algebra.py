"""What a mask is, and how masks combine: & | ~, and boolean arrays that somebody already has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import DTypeError
from regard.mask.arrays import as_array, brief, check_broadcast, host, is_bool, pick
from regard.mask.tile import Extent, Verdict, both

__all__ = ["Both", "Either", "Mask", "Not", "Table", "as_mask"]


class Mask(ABC):
    """A rule that says which query may see which key. Combine with & | ~."""

    @abstractmethod
    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Booleans broadcastable to (*batch, heads, len(i), len(j)); True = may attend."""

    @abstractmethod
    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Whether none, some or all of a tile may be seen, over every batch entry and head.
        SOME is always a correct answer; NONE and ALL are promises."""

    def arrays(self) -> Iterator[Any]:
        """The arrays this mask holds, in a fixed order."""
        return iter(())

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """The same mask with each array replaced by convert(array)."""
        return self

    def select(self, batch: tuple[int, ...]) -> Mask:
        """The same mask seen from one batch entry, asked with the whole problem's extent still."""
        return self

    def check(self, extent: Extent) -> None:  # noqa: B027
        """Raise ShapeError where an array inside does not fit the problem."""

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

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={brief(value)}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


@dataclass(frozen=True, repr=False)
class _Pair(Mask):
    """Two masks, each part handled alike."""

    left: Mask
    right: Mask

    def arrays(self) -> Iterator[Any]:
        """The left one's, then the right one's."""
        yield from self.left.arrays()
        yield from self.right.arrays()

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """Both converted."""
        return type(self)(self.left.map(convert), self.right.map(convert))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """Both seen from one entry."""
        return type(self)(self.left.select(batch), self.right.select(batch))

    def check(self, extent: Extent) -> None:
        """Both fit."""
        self.left.check(extent)
        self.right.check(extent)


@dataclass(frozen=True, repr=False)
class Both(_Pair):
    """left & right."""

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Where both allow."""
        return self.left.allows(i, j, extent) & self.right.allows(i, j, extent)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """NONE wins."""
        return both(self.left.verdict(rows, cols, extent), self.right.verdict(rows, cols, extent))

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@dataclass(frozen=True, repr=False)
class Either(_Pair):
    """left | right."""

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Where one allows."""
        return self.left.allows(i, j, extent) | self.right.allows(i, j, extent)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """ALL wins."""
        two = {self.left.verdict(rows, cols, extent), self.right.verdict(rows, cols, extent)}
        if Verdict.ALL in two:
            return Verdict.ALL
        return Verdict.NONE if two == {Verdict.NONE} else Verdict.SOME

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """~mask."""

    mask: Mask

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Where the other forbids."""
        return ~self.mask.allows(i, j, extent)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Turned round; an empty tile stays empty."""
        if not rows or not cols:
            return Verdict.NONE
        turned = {Verdict.NONE: Verdict.ALL, Verdict.ALL: Verdict.NONE, Verdict.SOME: Verdict.SOME}
        return turned[self.mask.verdict(rows, cols, extent)]

    def arrays(self) -> Iterator[Any]:
        """The other's."""
        return self.mask.arrays()

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """The other converted."""
        return Not(self.mask.map(convert))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """The other seen from one entry."""
        return Not(self.mask.select(batch))

    def check(self, extent: Extent) -> None:
        """The other fits."""
        self.mask.check(extent)

    def __repr__(self) -> str:
        return f"~{self.mask!r}"


def as_mask(given: Any) -> Mask:
    """A mask as it is; a boolean array as a Table; anything else is an error that says so."""
    if isinstance(given, Mask):
        return given
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return Table(given)
    raise DTypeError(
        f"mask is a {type(given).__name__}; give a regard mask such as regard.Causal(), "
        "or a boolean array broadcastable to (…, heads, queries, keys)"
    )


@dataclass(frozen=True, repr=False, eq=False)
class Table(Mask):
    """A boolean array that somebody already has, broadcastable to (*batch, heads, L, S)."""

    table: Any

    def __post_init__(self) -> None:
        array = as_array(self.table)
        if not is_bool(array):
            raise DTypeError(
                f"mask has dtype {array.dtype}; a mask is boolean, True = may attend. "
                "Additive numbers go into bias="
            )
        array = array.reshape((1,) * (2 - array.ndim) + tuple(array.shape))
        object.__setattr__(self, "table", array)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """The table's own word; an axis of size one speaks for all."""
        rows = self.table if self.table.shape[-2] == 1 else self.table[..., i, :]
        cols = rows if rows.shape[-1] == 1 else rows[..., j]
        return cols & (i == i)[:, None] & (j == j)[None, :]

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Looks at the tile."""
        if not rows or not cols:
            return Verdict.NONE
        tile = host(self.table)
        tile = tile if tile.shape[-2] == 1 else tile[..., rows.start : rows.stop, :]
        tile = tile if tile.shape[-1] == 1 else tile[..., cols.start : cols.stop]
        return Verdict.ALL if tile.all() else Verdict.SOME if tile.any() else Verdict.NONE

    def arrays(self) -> Iterator[Any]:
        """The table."""
        yield self.table

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """The table converted."""
        return Table(convert(self.table))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """One entry's table (heads, L, S)."""
        return Table(pick(self.table, batch, 3))

    def check(self, extent: Extent) -> None:
        """Broadcastable, and no larger than the problem."""
        check_broadcast(self.table.shape, extent.full, "mask", "(…, heads, queries, keys)")
