"""Packed sequences: tokens of several sequences one behind the other, without padding.

Sequence n has the queries query_starts[n] ≤ i < query_starts[n + 1] and the keys
key_starts[n] ≤ j < key_starts[n + 1], as FlashAttention's `cu_seqlens` have it. A rule inside
speaks of each sequence alone: its first token is token 0, its last query stands at its last key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from regard.arrays import cast, filled, host, is_traced, library, where, whole_numbers
from regard.declare import Declared, array, check_parts, part
from regard.errors import ShapeError
from regard.mask.base import Extent, Mask, Verdict
from regard.mask.spans import Spans, both_of

_Rule = TypeVar("_Rule", bound=Declared)


class Pack(NamedTuple):
    """Where sequences begin, and where the last one ends: (N + 1,) each."""

    query_starts: Any
    key_starts: Any

    def like(self, i: Any) -> Pack:
        """In the library and dtype of index vectors."""
        given = map(host, self) if isinstance(i, np.ndarray) else self
        return Pack(*(cast(starts, i) for starts in given))

    def sequence(self, i: Any, of_keys: bool = False) -> Any:
        """(len(i),): which sequence each query, or key, belongs to."""
        ends = self[of_keys][1:]
        if isinstance(i, np.ndarray):
            found = np.searchsorted(ends, i, side="right")
        else:
            found = library(i).searchsorted(ends, i, right=True)
        return found.clip(max=max(ends.shape[0] - 1, 0))  # starts are data: beyond the last is last

    def shifts(self, i: Any, align: str = "end") -> Any:
        """(len(i),): query i stands at key i + shift."""
        own = self.like(i)
        at = own.sequence(i) + (1 if align == "end" else 0)
        return own.key_starts[at] - own.query_starts[at]

    @property
    def sequences(self) -> int:
        """How many sequences there are."""
        return max(self.query_starts.shape[0] - 1, 0)

    def on_host(self) -> Pack:
        """The starts where Python can read them."""
        return Pack(*map(host, self))

    def of(self, n: int) -> tuple[range, range]:
        """The queries and the keys of one sequence; of starts on the host."""
        queries, keys = (range(int(part[n]), int(part[n + 1])) for part in self)
        return queries, keys

    def fill(
        self, i: Any, j: Any, extent: Extent, one: Callable[[int, Any, Any, Extent], Any]
    ) -> Any:
        """(…, len(i), len(j)): one(n, i, j, extent) of every sequence, told its own places, and 0
        or False where query and key are not of one sequence."""
        own = self.like(i)
        of_query, of_key = own.sequence(i), own.sequence(j, of_keys=True)
        there, blocks = self.on_host(), []
        for n in np.unique(host(of_query)).tolist():
            queries, keys = there.of(n)
            rows, cols = ((of == n).nonzero() for of in (of_query, of_key))
            rows, cols = (at[0] if isinstance(at, tuple) else at.reshape(-1) for at in (rows, cols))
            if len(rows) and len(cols):
                here = Extent(len(queries), len(keys), (), extent.heads)
                told = one(n, i[rows] - queries.start, j[cols] - keys.start, here)
                blocks.append((rows, cols, told))
        lead = np.broadcast_shapes(*(tuple(told.shape[:-2]) for *_, told in blocks))
        made = filled(blocks[0][2] if blocks else i == i, (*lead, len(i), len(j)), 0)
        for rows, cols, told in blocks:
            full = (*lead, len(rows), len(cols))
            cells = library(told).broadcast_to(told, full)
            made[(..., rows[:, None], cols[None, :])] = cells
        return made

    def cut(self, inner: _Rule, extent: Extent, heads: range) -> _Rule:
        """A rule of some heads; the sequences are its batch."""
        inside = Extent(extent.queries, extent.keys, (self.sequences,), extent.heads)
        return inner.cut(inside, (range(self.sequences),), heads)

    def check(self, inner: Declared | None, extent: Extent) -> None:
        """Starts are vectors of one size; a rule with arrays fits every sequence."""
        for name, starts in zip(self._fields, self, strict=True):
            if starts.ndim != 1 or starts.shape != self.query_starts.shape:
                raise ShapeError(
                    f"{name} has shape {tuple(starts.shape)}; give (sequences + 1,), for queries "
                    f"and keys alike, here {tuple(self.query_starts.shape)}"
                )
        if inner is None or is_traced() or not any(True for _ in inner.arrays()):
            return  # starts that are traced have no numbers yet
        there = self.on_host()
        for n in range(self.sequences):
            queries, keys = there.of(n)
            try:
                inner.check(Extent(len(queries), len(keys), (self.sequences,), extent.heads))
            except ShapeError as error:
                raise ShapeError(
                    f"{error} (of sequence {n}: {len(queries)} queries, {len(keys)} keys); a rule "
                    "about packed sequences speaks of each alone: give one without token axes"
                ) from error


class Packed(Mask):
    """Every query sees keys of its own sequence alone, and of these what `mask` allows."""

    tag = "packed/1"
    query_starts: Any = array("starts", batch=False)
    key_starts: Any = array("starts", batch=False, default=None)  # as queries where not given
    mask: Mask | None = part(default=None)

    def __post_init__(self) -> None:
        check_parts(self, Mask)
        for name in ("query_starts", "key_starts"):
            starts = getattr(self, name)
            if starts is not None:
                object.__setattr__(self, name, whole_numbers(starts, f"Packed({name})"))

    @property
    def pack(self) -> Pack:
        """Where sequences begin."""
        keys = self.query_starts if self.key_starts is None else self.key_starts
        return Pack(self.query_starts, keys)

    def as_pack(self) -> Pack:
        return self.pack

    def of(self, n: int) -> Mask | None:
        """The mask of one sequence."""
        return None if self.mask is None else self.mask.select((n,))

    def windows(self) -> tuple[Any, ...] | None:
        """The mask inside as windows that all have to allow a cell; None where it is more."""
        given = () if self.mask is None else self.mask.conditions()
        windows = tuple(one.as_window() for one in given)
        return None if None in windows else windows

    def sight(self, i: Any) -> tuple[Any, Any] | None:
        """(len(i),): the keys low ≤ j < high that each query sees, where they are that; computed
        where the starts are."""
        windows = self.windows()
        if windows is None:
            return None
        return self._narrowed(i, windows)

    def _narrowed(self, i: Any, windows: tuple[Any, ...]) -> Spans:
        own = self.pack.like(i)
        n = own.sequence(i)
        low, high = own.key_starts[n], own.key_starts[n + 1]
        for window in windows:
            at = i + own.shifts(i, window.align)
            if window.left is not None:
                low = where(at - window.left > low, at - window.left, low)
            if window.right is not None:
                high = where(at + window.right + 1 < high, at + window.right + 1, high)
        return Spans(low, high)

    # ── what a mask answers ──────────────────────────────────────────────────────────────────

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        sight = self.sight(i)
        if sight is not None:
            low, high = sight
            return (j[None, :] >= low[:, None]) & (j[None, :] < high[:, None])

        def one(n: int, rows: Any, cols: Any, here: Extent) -> Any:
            inner = self.of(n)
            assert inner is not None
            return inner.allows(rows, cols, here)

        return self.pack.fill(i, j, extent, one)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        if not rows or not cols:
            return Verdict.NONE
        i, windows = np.arange(rows.start, rows.stop), self.windows()
        low, high = self._narrowed(i, windows or ())
        if not np.any((low < high) & (low < cols.stop) & (high > cols.start)):
            return Verdict.NONE
        if not np.all((low <= cols.start) & (high >= cols.stop)):
            return Verdict.SOME
        if windows is not None:
            return Verdict.ALL
        n = int(self.pack.like(i).sequence(i[:1])[0])  # all rows are of one sequence
        queries, keys = self.pack.on_host().of(n)
        inner = self.of(n)
        assert inner is not None
        return inner.verdict(
            range(rows.start - queries.start, rows.stop - queries.start),
            range(cols.start - keys.start, cols.stop - keys.start),
            Extent(len(queries), len(keys), (), extent.heads),
        )

    def intervals(self, extent: Extent) -> tuple[Spans | None, Mask | None]:
        i, windows = np.arange(extent.queries), self.windows()
        spans = self._narrowed(i, windows or ())
        if windows is not None:
            return spans, None
        low, high, rest = spans.low.copy(), spans.high.copy(), False
        pack = self.pack.on_host()
        for n in range(pack.sequences):
            queries, keys = pack.of(n)
            inner, here = self.of(n), slice(queries.start, queries.stop)
            assert inner is not None
            some, more = inner.intervals(Extent(len(queries), len(keys), (), extent.heads))
            rest = rest or more is not None
            if some is not None:
                there = Spans(some.low + keys.start, some.high + keys.start)
                low[here], high[here] = both_of(Spans(low[here], high[here]), there)
        return Spans(low, high), self if rest else None

    def shifts(self, i: Any, extent: Extent) -> Any:
        """Each sequence's last query stands at its last key."""
        return None if self.key_starts is None else self.pack.shifts(i)

    def of_sequence(self, n: int, *part: int) -> Mask | None:
        return self.of(n)

    def select(self, batch: tuple[int, ...]) -> Packed:
        """The same for every batch entry: arrays inside speak of sequences."""
        return self

    def cut(
        self,
        extent: Extent,
        batch: Sequence[range],
        heads: range,
        queries: range | None = None,
        keys: range | None = None,
    ) -> Packed:
        """Of some heads; the batch of the mask inside are the sequences."""
        if self.mask is None:
            return self
        return replace(self, mask=self.pack.cut(self.mask, extent, heads))

    def check(self, extent: Extent) -> None:
        self.pack.check(self.mask, extent)
