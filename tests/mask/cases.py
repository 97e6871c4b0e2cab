"""Random masks, each with its meaning spelled out cell by cell in plain Python.

A Case holds a mask and `truth(batch, head, i, j)`, written from the definition and not from the
code. `matrix()` asks the truth for every cell, so a test compares arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from regard.mask import (
    Causal,
    Documents,
    Extent,
    Mask,
    Packed,
    Padding,
    Prefix,
    Rule,
    Window,
    as_mask,
)

Truth = Callable[[tuple[int, ...], int, int, int], bool]


@dataclass(frozen=True)
class Case:
    """A mask, the problem it is asked about, and what it should say."""

    mask: Mask
    extent: Extent
    truth: Truth

    def matrix(self) -> np.ndarray:
        """(*batch, heads, L, S), cell by cell."""
        full = np.zeros(self.extent.full, bool)
        for index in np.ndindex(*full.shape):
            *batch, head, i, j = index
            full[index] = self.truth(tuple(batch), head, i, j)
        return full


def answer(mask: Mask, extent: Extent) -> np.ndarray:
    """What the mask allows, on every cell, in numpy."""
    seen = mask.allows(np.arange(extent.queries), np.arange(extent.keys), extent)
    return np.broadcast_to(seen, extent.full)


def together(mask: Mask, extent: Extent) -> np.ndarray:
    """What the mask's intervals and its rest both allow."""
    spans, rest = mask.intervals(extent)
    allowed = np.ones(extent.full, bool)
    if spans is not None:
        rows = (*extent.batch, extent.queries)
        low, high = (np.broadcast_to(side, rows)[..., None, :, None] for side in spans)
        j = np.arange(extent.keys)
        allowed &= (low <= j) & (j < high)
    if rest is not None:
        rest = rest.map(np.asarray)
        allowed &= answer(rest, extent)
    return allowed


def tiles(extent: Extent) -> list[tuple[range, range]]:
    """Every tile there is, empty ones left out."""
    rows, cols = (
        [range(a, b) for a in range(n) for b in range(a + 1, n + 1)]
        for n in (extent.queries, extent.keys)
    )
    return list(product(rows, cols))


def cells(full: np.ndarray, rows: range, cols: range) -> np.ndarray:
    """A tile of the full matrix, over every batch entry and head."""
    return full[..., rows.start : rows.stop, cols.start : cols.stop]


@st.composite
def extents(draw: st.DrawFn, most: int = 5) -> Extent:
    """L and S apart, with no, one or two batch axes."""
    size = st.integers(1, most)
    batch = draw(st.sampled_from([(), (1,), (2,), (3,), (2, 2)]))
    return Extent(draw(size), draw(size), batch, draw(st.integers(1, 2)))


aligns = st.sampled_from(["start", "end"])


def stand(extent: Extent, align: str, i: int) -> int:
    """The key position at which query i stands."""
    return i if align == "start" else extent.keys - 1 - (extent.queries - 1 - i)


@st.composite
def arrays(draw: st.DrawFn, batch: tuple[int, ...], trailing: tuple[int, ...], values):
    """An array whose leading axes broadcast to the batch, with each entry at hand.

    Gives (array, at), where at(b) is the part that belongs to batch entry b.
    """
    kept = batch[draw(st.integers(0, len(batch))) :]
    lead = tuple(draw(st.sampled_from([1, n])) for n in kept)
    shape = (*lead, *trailing)
    count = int(np.prod(shape, dtype=int))
    array = np.array(draw(st.lists(values, min_size=count, max_size=count))).reshape(shape)
    spread = np.broadcast_to(array, (*batch, *trailing))
    return array, lambda b: spread[b]


@st.composite
def causal(draw: st.DrawFn, extent: Extent) -> Case:
    align = draw(aligns)
    return Case(Causal(align), extent, lambda b, h, i, j: j <= stand(extent, align, i))


@st.composite
def window(draw: st.DrawFn, extent: Extent) -> Case:
    side = st.none() | st.integers(0, 6)
    left, right, align = draw(side), draw(side), draw(aligns)

    def truth(b, h, i, j):
        ahead = j - stand(extent, align, i)
        return (left is None or -ahead <= left) and (right is None or ahead <= right)

    return Case(Window(left, right, align), extent, truth)


@st.composite
def prefix(draw: st.DrawFn, extent: Extent) -> Case:
    n, at = draw(arrays(extent.batch, (), st.integers(0, extent.keys + 1)))
    given = int(n) if n.ndim == 0 and draw(st.booleans()) else n
    return Case(Prefix(given), extent, lambda b, h, i, j: j < at(b))


@st.composite
def real(draw: st.DrawFn, extent: Extent, count: int):
    """Lengths or flags, with (b, t) → is token t of entry b real?"""
    if draw(st.booleans()):
        lengths, at = draw(arrays(extent.batch, (), st.integers(0, count)))
        return lengths, lambda b, t: t < at(b)
    flags, at = draw(arrays(extent.batch, (count,), st.booleans()))
    return flags, lambda b, t: at(b)[t]


@st.composite
def padding(draw: st.DrawFn, extent: Extent) -> Case:
    keys, key_is_real = draw(real(extent, extent.keys))
    if draw(st.booleans()):
        return Case(Padding(keys), extent, lambda b, h, i, j: key_is_real(b, j))
    queries, query_is_real = draw(real(extent, extent.queries))
    return Case(
        Padding(keys, queries),
        extent,
        lambda b, h, i, j: key_is_real(b, j) and query_is_real(b, i),
    )


@st.composite
def documents(draw: st.DrawFn, extent: Extent) -> Case:
    ids = st.integers(-1, 2)
    q, q_at = draw(arrays(extent.batch, (extent.queries,), ids))
    if extent.queries == extent.keys and draw(st.booleans()):
        return Case(Documents(q), extent, lambda b, h, i, j: q_at(b)[i] == q_at(b)[j])
    k, k_at = draw(arrays(extent.batch, (extent.keys,), ids))
    return Case(Documents(q, k), extent, lambda b, h, i, j: q_at(b)[i] == k_at(b)[j])


@st.composite
def rule(draw: st.DrawFn, extent: Extent) -> Case:
    m = draw(st.integers(1, 4))
    if draw(st.booleans()):
        plain = Rule(lambda i, j: (i + 2 * j) % m == 0)
        return Case(plain, extent, lambda b, h, i, j: (i + 2 * j) % m == 0)
    flat = {b: n for n, b in enumerate(np.ndindex(*extent.batch))}
    return Case(
        Rule(lambda batch, head, i, j: (3 * batch + head + i + j) % m == 0),
        extent,
        lambda b, h, i, j: (3 * flat[b] + h + i + j) % m == 0,
    )


@st.composite
def table(draw: st.DrawFn, extent: Extent) -> Case:
    array, at = draw(arrays(extent.full, (), st.booleans()))
    return Case(as_mask(array), extent, lambda b, h, i, j: at((*b, h, i, j)))


@st.composite
def packed(draw: st.DrawFn, extent: Extent) -> Case:
    """Some sequences, empty ones among them, each under a mask that is told its own places."""
    count = draw(st.integers(1, 3))

    def starts(tokens: int) -> np.ndarray:
        inner = st.lists(st.integers(0, tokens), min_size=count - 1, max_size=count - 1)
        return np.array([0, *sorted(draw(inner)), tokens])

    queries = starts(extent.queries)
    together = extent.queries == extent.keys and draw(st.booleans())
    keys = queries if together else starts(extent.keys)
    alone = [
        Extent(int(q), int(k), (), extent.heads)
        for q, k in zip(np.diff(queries), np.diff(keys), strict=True)
    ]
    side = st.none() | st.integers(0, 3)
    left, right, align, n = draw(side), draw(side), draw(aligns), draw(st.integers(0, 2))
    kind = draw(st.sampled_from(["window", "either", "lengths", "rule"]))
    lengths = np.array(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
    window = Window(left, right, align)
    inside = {
        "window": window,
        "either": window | Prefix(n),
        "lengths": Padding(lengths),
        "rule": Rule(lambda b, h, i, j: (b + h + 2 * i + j) % 3 > 0) & window,
    }[kind]

    def truth(_, h, i, j):
        b, c = (int(np.searchsorted(s[1:], t, side="right")) for s, t in ((queries, i), (keys, j)))
        if b != c:
            return False
        i, j = i - queries[b], j - keys[b]
        ahead = j - stand(alone[b], align, i)
        near = (left is None or -ahead <= left) and (right is None or ahead <= right)
        if kind == "window":
            return near
        if kind == "either":
            return near or j < n
        return j < lengths[b] if kind == "lengths" else near and (b + h + 2 * i + j) % 3 > 0

    return Case(Packed(queries, None if together else keys, inside), extent, truth)


def simple(extent: Extent) -> st.SearchStrategy[Case]:
    """One mask of any kind."""
    kinds = (causal, window, prefix, padding, documents, packed, rule, table)
    return st.one_of(*(kind(extent) for kind in kinds))


@st.composite
def composed(draw: st.DrawFn, extent: Extent, depth: int = 3) -> Case:
    """Masks joined with & | ~, up to three deep."""
    form = draw(st.sampled_from(["one", "and", "or", "not"])) if depth else "one"
    if form == "one":
        return draw(simple(extent))
    first = draw(composed(extent, depth - 1))
    if form == "not":
        return Case(~first.mask, extent, lambda *cell: not first.truth(*cell))
    second = draw(composed(extent, depth - 1))
    if form == "and":
        return Case(
            first.mask & second.mask,
            extent,
            lambda *cell: first.truth(*cell) and second.truth(*cell),
        )
    return Case(
        first.mask | second.mask, extent, lambda *cell: first.truth(*cell) or second.truth(*cell)
    )


def cases(kind=composed) -> st.SearchStrategy[Case]:
    """A mask of one kind on a random problem."""
    return extents().flatmap(kind)
