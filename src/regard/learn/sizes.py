"""How wide everything is: the heads, d_k and d_v that were asked for, or what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import InputError, ShapeError

__all__ = ["Sizes", "settle"]

_MOST_HEADS = 64
_MOST_DIMS = 1024


@dataclass(frozen=True)
class Sizes:
    """Width of the input, number of heads, and each head's widths."""

    width: int
    heads: int
    d_k: int
    d_v: int

    @property
    def concat(self) -> int:
        """Width of all heads' outputs side by side."""
        return self.heads * self.d_v


def settle(
    width: int, *, heads: int | None = None, d_k: int | None = None, d_v: int | None = None
) -> Sizes:
    """The sizes asked for; by default the heads share the width equally."""
    count = 1 if heads is None else heads
    _check("--heads", count, _MOST_HEADS)
    for name, given in (("--d-k", d_k), ("--d-v", d_v)):
        if given is not None:
            _check(name, given, _MOST_DIMS)
    if d_k is None and width % count:
        fits = [str(n) for n in range(1, min(width, _MOST_HEADS) + 1) if width % n == 0]
        raise ShapeError(
            f"--heads {count}: a width of {width} does not divide into {count} heads; "
            f"give {', '.join(fits)} heads, or --d-k"
        )
    share = width // count
    key = share if d_k is None else d_k
    value = (key if width % count else share) if d_v is None else d_v
    return Sizes(width, count, key, value)


def _check(option: str, given: int, most: int) -> None:
    if not 1 <= given <= most:
        raise InputError(f"{option} {given}: give a whole number from 1 to {most}")
