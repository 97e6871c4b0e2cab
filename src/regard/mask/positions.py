"""Masks that look at positions alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from regard.errors import InputError
from regard.mask.algebra import Mask
from regard.mask.arrays import check_broadcast, counts, pick
from regard.mask.tile import Align, Extent, Verdict, check_align, length_verdict

__all__ = ["Causal", "Prefix", "Window"]


@dataclass(frozen=True, repr=False)
class Window(Mask):
    """Keys from `left` before to `right` after one's own position; None leaves a side open.

    Hugging Face's `sliding_window=W` counts oneself: that is Window(left=W − 1).
    """

    left: int | None
    right: int | None = 0
    align: Align = "end"

    def __post_init__(self) -> None:
        check_align(self.align)
        for side in ("left", "right"):
            given = getattr(self, side)
            whole = isinstance(given, Integral) and not isinstance(given, bool)
            if given is not None and (not whole or given < 0):
                raise InputError(f"Window({side}={given!r}): give a whole number ≥ 0, or None")

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """position − left ≤ j ≤ position + right."""
        position, j = (i + extent.shift(self.align))[:, None], j[None, :]
        seen = (j <= position + self.right) if self.right is not None else (j == j)
        return seen & (
            (j >= position - self.left) if self.left is not None else (position == position)
        )

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """By the corners of the tile alone."""
        if not rows or not cols:
            return Verdict.NONE
        shift = extent.shift(self.align)
        first, last = rows[0] + shift, rows[-1] + shift
        left = float("inf") if self.left is None else self.left
        right = float("inf") if self.right is None else self.right
        if cols[-1] < first - left or cols[0] > last + right:
            return Verdict.NONE
        if cols[0] >= last - left and cols[-1] <= first + right:
            return Verdict.ALL
        return Verdict.SOME


@dataclass(frozen=True, repr=False)
class Causal(Mask):
    """Oneself and everything before."""

    align: Align = "end"

    def __post_init__(self) -> None:
        check_align(self.align)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """j ≤ position."""
        return j[None, :] <= (i + extent.shift(self.align))[:, None]

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """A window open to the left."""
        return Window(None, 0, self.align).verdict(rows, cols, extent)


@dataclass(frozen=True, repr=False, eq=False)
class Prefix(Mask):
    """The first n keys, for everybody. A prefix language model is `Causal() | Prefix(n)`."""

    n: Any  # one number, or one per batch entry (*batch,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", counts(self.n, "Prefix(n)"))

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """j < n."""
        return (j < self.n[..., None, None, None]) & (i == i)[:, None]

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """By the shortest and the longest prefix."""
        return length_verdict(self.n, cols) if rows else Verdict.NONE

    def arrays(self) -> Iterator[Any]:
        """n."""
        yield self.n

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """n converted."""
        return Prefix(convert(self.n))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """One entry's n."""
        return Prefix(pick(self.n, batch, 0))

    def check(self, extent: Extent) -> None:
        """n is one number or one per batch entry."""
        check_broadcast(self.n.shape, extent.batch, "Prefix(n)", "the batch")
