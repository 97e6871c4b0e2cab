"""The kinds of masks: by position, by what tokens are, by any array or predicate."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from regard.arrays import (
    as_array,
    check_broadcast,
    counts,
    counts_or_flags,
    filled,
    host,
    is_bool,
    library,
    like,
    real,
    whole_numbers,
)
from regard.declare import array
from regard.errors import DTypeError, InputError, RegardError, ShapeError
from regard.mask.base import (
    Align,
    Extent,
    Mask,
    Verdict,
    check_align,
    length_verdict,
    meet,
    real_verdict,
)
from regard.mask.spans import Spans, of_documents, of_flags

# ── by position ──────────────────────────────────────────────────────────────────────────────


class Window(Mask):
    """Keys from `left` before to `right` after the query's position; None leaves a side open.

    Hugging Face's `sliding_window=W` includes the position itself: that is Window(left=W − 1).
    """

    tag = "window/1"
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

    def spans(self, extent: Extent) -> Spans:
        at = np.arange(extent.queries, dtype=np.int64) + extent.shift(self.align)
        low = np.zeros_like(at) if self.left is None else at - self.left
        high = np.full_like(at, extent.keys) if self.right is None else at + self.right + 1
        return Spans(low, high)

    def as_window(self) -> Window:
        return self


_BEHIND = {align: Window(None, 0, align) for align in ("end", "start")}  # made once


class Causal(Mask):
    """Each query sees its own position and everything before."""

    tag = "causal/1"
    align: Align = "end"

    def __post_init__(self) -> None:
        if self.align != "end":
            check_align(self.align)

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """j ≤ position."""
        return j[None, :] <= (i + extent.shift(self.align))[:, None]

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        return _BEHIND[self.align].verdict(rows, cols, extent)

    def spans(self, extent: Extent) -> Spans:
        return _BEHIND[self.align].spans(extent)

    def as_window(self) -> Window:
        return _BEHIND[self.align]


class Prefix(Mask):
    """Every query sees the first n keys. A prefix language model is `Causal() | Prefix(n)`."""

    tag = "prefix/1"
    n: Any = array()  # one number, or one per batch entry (*batch,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", counts(self.n, "Prefix(n)"))

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """j < n."""
        return (j < self.n[..., None, None, None]) & (i == i)[:, None]

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        """By the shortest and the longest prefix."""
        return length_verdict(self.n, cols) if rows else Verdict.NONE

    def spans(self, extent: Extent) -> Spans:
        n = np.asarray(self.n, dtype=np.int64)[..., None]
        high = np.broadcast_to(n, (*n.shape[:-1], extent.queries))
        return Spans(np.zeros_like(high), high)

    def check(self, extent: Extent) -> None:
        check_broadcast(self.n.shape, extent.batch, "Prefix(n)", "the batch")


# ── by what the tokens are ───────────────────────────────────────────────────────────────────


class Padding(Mask):
    """The keys that are not padding, as lengths (*batch,) or booleans (*batch, keys).

    `queries` likewise: a query that is padding sees no key, so it adds nothing to any statistic.
    """

    tag = "padding/1"
    keys: Any = array(flags="keys")
    queries: Any = array(flags="queries", default=None)

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
        """By keys and by queries, separately."""
        if not rows or not cols:
            return Verdict.NONE
        by_key = real_verdict(self.keys, cols)
        return by_key if self.queries is None else meet(by_key, real_verdict(self.queries, rows))

    def spans(self, extent: Extent) -> Spans | None:
        keys = of_flags(np.asarray(self.keys))
        if keys is None:
            return None
        low, high = keys.low[..., None], keys.high[..., None]  # (*batch, 1)
        wide = (*low.shape[:-1], extent.queries)
        if self.queries is None:
            return Spans(np.broadcast_to(low, wide), np.broadcast_to(high, wide))
        rows = real(np.asarray(self.queries), np.arange(extent.queries))
        return Spans(np.where(rows, low, 0), np.where(rows, high, 0))

    def as_padding(self) -> Padding:
        return self

    def check(self, extent: Extent) -> None:
        """Flags are as long as their sequence."""
        for side, count in (("keys", extent.keys), ("queries", extent.queries)):
            given = getattr(self, side)
            if given is None:
                continue
            if not is_bool(given):
                said = f"Padding({side}) as lengths"
                check_broadcast(given.shape, extent.batch, said, "the batch")
                continue
            if given.shape[-1] != count:
                raise ShapeError(
                    f"Padding({side}) has {given.shape[-1]} booleans for {count} {side}"
                )
            check_broadcast(given.shape[:-1], extent.batch, f"Padding({side})", "the batch")


class Documents(Mask):
    """Packed sequences: a query sees the keys that have its own document id."""

    tag = "documents/1"
    query_ids: Any = array("queries")
    key_ids: Any = array("keys", default=None)  # the query ids where not given

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
        """NONE if the ranges of ids are disjoint, ALL if both are one and the same id."""
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

    def spans(self, extent: Extent) -> Spans | None:
        return of_documents(np.asarray(self.query_ids), np.asarray(self.key_ids))

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


# ── anything else ────────────────────────────────────────────────────────────────────────────


class Intervals(Mask):
    """One interval of keys per query: low[i] ≤ j < high[i], in O(N) memory."""

    tag = "intervals/1"
    low: Any = array("queries", batch=False)
    high: Any = array("queries", batch=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", whole_numbers(self.low, "Intervals(low)"))
        object.__setattr__(self, "high", whole_numbers(self.high, "Intervals(high)"))

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """low ≤ j < high."""
        return (j[None, :] >= self.low[i][:, None]) & (j[None, :] < self.high[i][:, None])

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        if not rows or not cols:
            return Verdict.NONE
        low, high = (host(end)[rows.start : rows.stop] for end in (self.low, self.high))
        if np.all((low >= cols.stop) | (high <= cols.start) | (low >= high)):
            return Verdict.NONE
        whole = np.all((low <= cols.start) & (high >= cols.stop))
        return Verdict.ALL if whole else Verdict.SOME

    def spans(self, extent: Extent) -> Spans:
        low, high = (np.asarray(host(end), dtype=np.int64) for end in (self.low, self.high))
        return Spans(low, np.maximum(low, high))

    def check(self, extent: Extent) -> None:
        """One run per query."""
        for name, ends in (("low", self.low), ("high", self.high)):
            if tuple(ends.shape) != (extent.queries,):
                raise ShapeError(
                    f"Intervals({name}) has shape {tuple(ends.shape)}; give one number per query: "
                    f"({extent.queries},)"
                )


class Table(Mask):
    """A boolean array that somebody already has, broadcastable to (*batch, heads, L, S)."""

    tag = "table/1"
    table: Any = array("heads", "queries", "keys")

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

    def check(self, extent: Extent) -> None:
        """Broadcastable, and no larger than the problem."""
        check_broadcast(self.table.shape, extent.full, "mask", "(…, heads, queries, keys)")


class Rule(Mask):
    """Any predicate on places: fn(i, j) or fn(batch, head, i, j), as FlexAttention's mask_mod.

    A cell is what the function returns for this cell alone, whatever it does with its arguments:
    torch's vmap asks for a tile at a time. A function that vmap cannot run, since it looks at
    shapes or leaves torch, is given index arrays that broadcast against each other, as in
    `Rule(lambda i, j: (i - j) % 2 == 0)`, and refused if it mixes cells. It has to return the same
    whenever it is asked. Hidden tiles are skipped on a GPU, where it is evaluated beforehand.
    """

    tag = "rule/1"
    fn: Callable[..., Any]
    entry: tuple[int, ...] | None = None  # the batch entry this rule is seen from

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise DTypeError(f"Rule(fn) takes a function of (i, j), not {type(self.fn).__name__}")
        if not (_takes(self.fn, 2) or _takes(self.fn, 4)):
            raise InputError("the function in Rule(fn) must take (i, j) or (batch, head, i, j)")

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        """The result of the function, (*batch, heads, len(i), len(j)) where it speaks of these."""
        places = [*self._places(i, extent), i, j]
        return self._asked(places, tuple(size for place in places for size in place.shape))

    def _asked(self, places: list[Any], full: tuple[int, ...]) -> Any:
        if 0 in full:
            i = places[-2]
            return filled(i == i, (*(1 for _ in full[:-2]), *full[-2:]), 0)
        if isinstance(places[-1], np.ndarray):
            return _cell_by_cell(self.fn, places).reshape(full)
        try:
            from regard.mask.places import by_vmap  # which needs torch, whose tensors these are

            seen = by_vmap(self.fn, places)
        except RegardError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a function of the caller raises
            return _broadcast(self.fn, places, error)
        return _checked_booleans(seen)

    def _places(self, i: Any, extent: Extent) -> tuple[Any, ...]:
        """Index arrays of batch (*batch,) and head (heads,), where fn wants them."""
        if _takes(self.fn, 2):
            return ()
        entries = np.arange(int(np.prod(extent.batch, dtype=np.int64))).reshape(extent.batch)
        if self.entry is None:
            here = entries
        elif len(self.entry) != 1 or extent.batch:
            here = entries[self.entry]
        else:  # an entry that is looked at alone has left its batch, of one axis, behind
            here = np.asarray(self.entry[0])
        return like(here, i), like(np.arange(extent.heads), i)

    def select(self, batch: tuple[int, ...]) -> Rule:
        """The same function with its batch index fixed."""
        return replace(self, entry=batch)

    def cut(
        self,
        extent: Extent,
        batch: Sequence[range],
        heads: range,
        queries: range | None = None,
        keys: range | None = None,
    ) -> Rule:
        """The function is given indices of the whole problem."""
        if _takes(self.fn, 2):
            return self
        entries = np.arange(int(np.prod(extent.batch, dtype=np.int64))).reshape(extent.batch)
        mine = entries[tuple(slice(span.start, span.stop) for span in batch)].reshape(-1)
        fn, first = self.fn, heads.start

        def there(batch: Any, head: Any, i: Any, j: Any) -> Any:
            return fn(like(mine, batch)[batch], head + first, i, j)

        return type(self)(there)


class TileRule(Rule):
    """A rule whose function is given index arrays that broadcast against each other, and answers
    for every cell by itself."""

    tag = "tile-rule/1"

    def _asked(self, places: list[Any], full: tuple[int, ...]) -> Any:
        seen = _checked_booleans(self.fn(*_spread(places)))
        i, j = places[-2:]
        return seen & (i == i)[:, None] & (j == j)[None, :]


def _spread(places: list[Any]) -> list[Any]:
    """Each with an axis for all that follow: batch (*batch, 1, 1, 1), head (heads, 1, 1), i (R, 1),
    j (1, C)."""
    *lead, last = places
    return [*(p[(..., *(None,) * (len(lead) - n))] for n, p in enumerate(lead)), last[None]]


def _checked_booleans(seen: Any) -> Any:
    if not hasattr(seen, "shape") or not is_bool(seen):
        raise DTypeError("the function in Rule(fn) must return booleans, one per (i, j)")
    return seen


def _cell_by_cell(fn: Callable[..., Any], places: list[Any]) -> Any:
    """Of numpy's indices: one call a cell."""
    cells = itertools.product(*(place.reshape(-1) for place in places))
    seen = [_checked_booleans(fn(*map(np.asarray, cell))).reshape(()) for cell in cells]
    return np.array(seen, dtype=bool)


def _broadcast(fn: Callable[..., Any], places: list[Any], why: Exception) -> Any:
    """The function of index arrays, where a cell is the same alone as among others."""
    spread = _spread(places)
    try:
        seen = _checked_booleans(fn(*spread))
    except RegardError:
        raise
    except Exception as error:
        is_torchs = isinstance(error, (IndexError, RuntimeError, TypeError))
        if not is_torchs and (type(error), str(error)) == (type(why), str(why)):
            raise  # an error of the function's own
        raise InputError(
            f"the function in Rule(fn) runs neither for one place at a time under torch.vmap "
            f"({why}) nor for index arrays that broadcast ({error})"
        ) from why
    *_, i, j = places
    for axis, index in ((-2, i), (-1, j)):
        for at in {0, len(index) // 2, len(index) - 1}:
            some = [p.narrow(axis, at, 1) if n - len(places) == axis else p
                    for n, p in enumerate(spread)]  # fmt: skip
            alone = fn(*some)
            if not _is_part(alone, seen, axis, at, (len(i), len(j))):
                raise InputError(
                    "the function in Rule(fn) mixes cells: given index arrays it returns "
                    f"{tuple(seen.shape)} booleans for {len(i)} queries and {len(j)} keys, others "
                    f"than for some of them alone, and torch.vmap cannot run it ({why}); return "
                    "one boolean per (i, j) that depends on this i and j alone"
                )
    return seen & (i == i)[:, None] & (j == j)[None, :]


def _is_part(alone: Any, seen: Any, axis: int, at: int, size: tuple[int, int]) -> bool:
    """Whether what was returned for one query, or key, is that part of what was for all."""
    if seen.ndim < 2 or any(n not in (1, m) for n, m in zip(seen.shape[-2:], size, strict=True)):
        return False
    part = seen if seen.shape[axis] == 1 else seen.narrow(axis, at, 1)
    wide = library(alone).broadcast_tensors(alone, part)
    return bool((wide[0] == wide[1]).all())


def _takes(fn: Callable[..., Any], count: int) -> bool:
    """Whether fn can be called with so many arguments; a builtin that does not say takes two."""
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return count == 2
    return True


_takes._dynamo_marked_constant = True  # type: ignore[attr-defined]  # what traced code is given
