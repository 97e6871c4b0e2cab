"""Masks that depend on what the tokens are: padding, packed documents, any predicate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.errors import DTypeError, InputError, ShapeError
from regard.mask.algebra import Mask
from regard.mask.arrays import (
    check_broadcast,
    counts_or_flags,
    host,
    is_bool,
    like,
    pick,
    real,
    whole_numbers,
)
from regard.mask.tile import Extent, Verdict, both, real_verdict

__all__ = ["Documents", "Padding", "Rule"]


@dataclass(frozen=True, repr=False, eq=False)
class Padding(Mask):
    """Keys that are real, as lengths (*batch,) or booleans (*batch, keys); likewise queries.

    A query outside `queries` sees no key, so that it adds nothing to any statistic.
    """

    keys: Any
    queries: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", counts_or_flags(self.keys, "Padding(keys)"))
        if self.queries is not None:
            flags = counts_or_flags(self.queries, "Padding(queries)")
            object.__setattr__(self, "queries", flags)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Both the key and the query are real."""
        seen = real(self.keys, j)[..., None, None, :] & (i == i)[:, None]
        return seen if self.queries is None else seen & real(self.queries, i)[..., None, :, None]

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Keys and queries judged apart."""
        if not rows or not cols:
            return Verdict.NONE
        by_key = real_verdict(self.keys, cols)
        return by_key if self.queries is None else both(by_key, real_verdict(self.queries, rows))

    def arrays(self) -> Iterator[Any]:
        """keys, then queries where given."""
        yield self.keys
        if self.queries is not None:
            yield self.queries

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """Both converted."""
        return Padding(convert(self.keys), None if self.queries is None else convert(self.queries))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """One entry's lengths or flags."""
        return self.map(lambda a: pick(a, batch, 1 if is_bool(a) else 0))

    def check(self, extent: Extent) -> None:
        """Flags are as long as the sequence they speak of."""
        _check_real(self.keys, extent.keys, extent.batch, "keys")
        if self.queries is not None:
            _check_real(self.queries, extent.queries, extent.batch, "queries")


@dataclass(frozen=True, repr=False, eq=False)
class Documents(Mask):
    """Packed sequences: a query sees the keys that carry its own document's id."""

    query_ids: Any  # (*batch, queries)
    key_ids: Any = None  # (*batch, keys); the query ids where not given

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_ids", whole_numbers(self.query_ids, "Documents(query_ids)"))
        keys = self.query_ids if self.key_ids is None else self.key_ids
        object.__setattr__(self, "key_ids", whole_numbers(keys, "Documents(key_ids)"))

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """The two ids are equal."""
        return (
            self.query_ids[..., i][..., None, :, None] == self.key_ids[..., j][..., None, None, :]
        )

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Disjoint ranges of ids never meet; one and the same id always does."""
        if not rows or not cols:
            return Verdict.NONE
        q = host(self.query_ids)[..., rows.start : rows.stop]
        k = host(self.key_ids)[..., cols.start : cols.stop]
        q_low, q_high, k_low, k_high = q.min(-1), q.max(-1), k.min(-1), k.max(-1)
        if np.all((q_high < k_low) | (k_high < q_low)):
            return Verdict.NONE
        if np.all((q_low == q_high) & (k_low == k_high) & (q_low == k_low)):
            return Verdict.ALL
        return Verdict.SOME

    def arrays(self) -> Iterator[Any]:
        """Query ids, key ids."""
        yield self.query_ids
        yield self.key_ids

    def map(self, convert: Callable[[Any], Any]) -> Mask:
        """Both converted."""
        return Documents(convert(self.query_ids), convert(self.key_ids))

    def select(self, batch: tuple[int, ...]) -> Mask:
        """One entry's ids."""
        return self.map(lambda a: pick(a, batch, 1))

    def check(self, extent: Extent) -> None:
        """One id per token."""
        for name, ids, count in (
            ("query_ids", self.query_ids, extent.queries),
            ("key_ids", self.key_ids, extent.keys),
        ):
            if ids.shape[-1] != count:
                side = name.replace("_ids", "")
                raise ShapeError(
                    f"Documents({name}) has {ids.shape[-1]} ids for {count} {side} tokens"
                    + ("; give key_ids too" if name == "key_ids" else "")
                )
            check_broadcast(ids.shape[:-1], extent.batch, f"Documents({name})", "the batch")


@dataclass(frozen=True, repr=False)
class Rule(Mask):
    """Any predicate on index arrays: fn(i, j) or fn(batch, head, i, j), evaluated per tile.

    The arguments broadcast against each other, so `Rule(lambda i, j: (i - j) % 2 == 0)` works
    as it stands. A rule is opaque: no tile of it is ever skipped.
    """

    fn: Callable[..., Any]
    entry: tuple[int, ...] | None = None  # the batch entry this rule is seen from

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise DTypeError(f"Rule(fn) takes a function of (i, j), not {type(self.fn).__name__}")
        if not (_takes(self.fn, 2) or _takes(self.fn, 4)):
            raise InputError("the function in Rule(fn) must take (i, j) or (batch, head, i, j)")

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """Whatever the function says."""
        seen = self.fn(*self._places(i, extent), i[:, None], j[None, :])
        if not hasattr(seen, "shape") or not is_bool(seen):
            raise DTypeError("the function in Rule(fn) must return booleans, one per (i, j)")
        return seen & (i == i)[:, None] & (j == j)[None, :]

    def _places(self, i: Any, extent: Extent) -> tuple[Any, ...]:
        """Index arrays of batch (*batch, 1, 1, 1) and head (heads, 1, 1), where fn wants them."""
        if _takes(self.fn, 2):
            return ()
        entries = np.arange(int(np.prod(extent.batch, dtype=np.int64))).reshape(extent.batch)
        if self.entry is None:
            here = entries[..., None, None, None]
        elif len(self.entry) != 1 or extent.batch:
            here = entries[self.entry]
        else:  # an entry that is looked at alone has left its batch, of one axis, behind
            here = np.asarray(self.entry[0])
        return like(here, i), like(np.arange(extent.heads)[:, None, None], i)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """Opaque, hence SOME."""
        return Verdict.SOME if rows and cols else Verdict.NONE

    def select(self, batch: tuple[int, ...]) -> Mask:
        """The same function with its batch index fixed."""
        return replace(self, entry=batch)


def _takes(fn: Callable[..., Any], count: int) -> bool:
    """Whether fn can be called with so many arguments; a builtin that does not say takes two."""
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return count == 2
    return True


def _check_real(given: Any, count: int, batch: tuple[int, ...], side: str) -> None:
    """Lengths are one per batch entry; booleans are as many as there are tokens."""
    if not is_bool(given):
        check_broadcast(given.shape, batch, f"Padding({side}) as lengths", "the batch")
        return
    if given.shape[-1] != count:
        raise ShapeError(f"Padding({side}) has {given.shape[-1]} booleans for {count} {side}")
    check_broadcast(given.shape[:-1], batch, f"Padding({side})", "the batch")
