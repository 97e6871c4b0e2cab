"""The axes of attention, one checker, one wording.

    batch   any number of leading axes
    head    query heads Hq; key and value have Hkv, and Hq is a multiple of Hkv (contiguous groups)
    query   L rows
    key     S columns
    dim     D of query and key, Dv of value

    query (…, Hq, L, D)    key (…, Hkv, S, D)    value (…, Hkv, S, Dv)

An input of two axes is one head: (L, D). Shapes are tuples here, so torch is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from regard.errors import ShapeError
from regard.mask import Extent

_Given: TypeAlias = tuple[tuple[int, ...], ...]  # the shapes of query, key and perhaps value


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of one attention problem."""

    batch: tuple[int, ...]
    query_heads: int
    key_heads: int
    queries: int
    keys: int
    dim: int
    value_dim: int
    headless: bool = False  # the inputs had two axes; results drop the head axis again

    @classmethod
    def of(
        cls,
        query: Sequence[int],
        key: Sequence[int],
        value: Sequence[int] | None = None,
        dot: bool = True,
    ) -> AttentionShape:
        """Read the sizes off the given shapes; ShapeError says which ones do not fit. Scores that
        are no dot products have queries and keys of different dims."""
        query, key = tuple(query), tuple(key)
        given = (query, key) if value is None else (query, key, tuple(value))
        value = (*key[:-1], 0) if value is None else tuple(value)
        _check_axes(query, key, value, given, dot)
        headless = len(query) == 2
        heads, key_heads = (1, 1) if headless else (query[-3], key[-3])
        _check_heads(heads, key_heads, given)
        return cls(
            batch=query[:-3], query_heads=heads, key_heads=key_heads, queries=query[-2],
            keys=key[-2], dim=query[-1], value_dim=value[-1], headless=headless,
        )  # fmt: skip

    @property
    def group(self) -> int:
        """How many query heads share one key head."""
        return self.query_heads // self.key_heads if self.key_heads else 1

    @property
    def extent(self) -> Extent:
        """The extent that masks and biases are asked about."""
        return Extent(self.queries, self.keys, self.batch, self.query_heads)

    def public(self, shape: Sequence[int]) -> tuple[int, ...]:
        """(*batch, Hq, …) as the caller sees it: without the head axis where none was given."""
        kept = len(self.batch)
        return (*shape[:kept], *shape[kept + 1 :]) if self.headless else tuple(shape)


def _wrong(given: _Given, why: str) -> ShapeError:
    """Shapes are written out only here: while torch traces, sizes are symbols."""
    names = ("query", "key", "value")
    said = ", ".join(f"{name} {shape}" for name, shape in zip(names, given, strict=False))
    return ShapeError(f"{said}: {why}")


def _check_axes(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], given: _Given, dot: bool
) -> None:
    if not 2 <= len(query) == len(key) == len(value):
        raise _wrong(
            given, "they need the same number of axes, at least two: (…, heads, tokens, dim)"
        )
    if dot and query[-1] != key[-1]:
        raise _wrong(
            given, f"query dim {query[-1]} ≠ key dim {key[-1]}; the score is their dot product"
        )
    if query[-1] == 0:
        raise _wrong(given, "dim is 0; a dot product needs at least one dimension")
    if key[-2] != value[-2]:
        raise _wrong(given, f"{key[-2]} keys but {value[-2]} values; each key needs its own value")
    if key[:-2] != value[:-2]:
        raise _wrong(
            given, f"key has batch and heads {key[:-2]}, value {value[:-2]}; give both the same"
        )
    if query[:-3] != key[:-3]:
        raise _wrong(
            given, f"batch {query[:-3]} of query ≠ batch {key[:-3]} of key; expand the smaller one"
        )


def _check_heads(heads: int, key_heads: int, given: _Given) -> None:
    if heads == key_heads:
        return
    if key_heads == 0 or heads == 0 or heads % key_heads:
        fits = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise _wrong(
            given,
            f"{heads} query heads are not a multiple of {key_heads} key heads"
            + (f"; key and value could have {fits}" if fits else ""),
        )
