# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The forward sweep of a few queries over many keys, as in decoding.

Few blocks of rows leave most of a GPU idle, so the keys are split, and the query heads that share
a key head stand together in the rows of one tile: keys and values are read once.

    part      one split of one key head: the running numbers of `forward`, not yet finished
    combine   one row: its splits, in order, with a = 2^(m_split − m)
                  l = Σ a·l      t = Σ a·(t + (m_split − m)·l)      q = Σ a²·q      o = Σ a·o
              and then what `forward` does at its end

A split has a fixed size, not a fixed count: a row's bits depend neither on the batch nor on how
many splits come after its last key.

Scores of a few queries are no more than the keys themselves: where `few` wants them, the parts
leave them behind, or are swept for them alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.forward import Asked, Found, finish, fold, hide, new_found
from regard.engine.backends.gpu.launch import (
    EXACT,
    Shape,
    blocks,
    options,
    padded,
    run,
    strides_of,
    value_chunk,
)
from regard.engine.backends.gpu.tile import FLOOR, NOBODY, factor, key_range, log2e, square
from regard.engine.call import RowState

MOST_QUERIES = 16
_FEWEST_KEYS = 1024
_SPLIT = 1024  # keys
_SPLITS = 32  # combined at a time


def decodes(bound: Bound) -> bool:
    """Whether splitting the keys pays: few queries, many keys."""
    return bound.rule.queries <= MOST_QUERIES and bound.rule.keys >= _FEWEST_KEYS


def _shape(rows: int, dim: int, dtype: torch.dtype) -> Shape:
    """Of a tile of packed rows, by what registers and shared memory hold."""
    narrow = padded(dim) <= 128
    if dtype == torch.float64:
        return Shape(16, 32, 4, 1)
    if dtype == torch.float32:
        return Shape(16, 32, 4, 2)
    return Shape(16 if rows <= 16 else 64, 64, 4 if narrow else 8, 3 if narrow else 2)


@triton.jit
def _is_seen(rule, b, h, i, n):
    """Whether some of the rows, of whichever heads, see something of a tile's square."""
    return tl.max((square(rule, b, h, i, n) != NOBODY).to(tl.int32), 0) > 0


@triton.jit(do_not_specialize=["tiles", "base"])
def _part(
    Q, K, V, rule, asked, parts, q_strides, k_strides, v_strides, dim, value_dim, tiles, base,
    D: tl.constexpr, DV: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr,
    QUERIES: tl.constexpr, FAST: tl.constexpr, PLAIN: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """One split of one key head, counted from `base`, some of the rows that share it, one chunk of
    its values."""
    ACC: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    split = tl.program_id(0)
    shared = base + tl.program_id(1) // tiles  # batch entry and key head
    chunk = tl.program_id(2)
    key_heads = rule.heads // rule.group
    b = shared // key_heads
    kh = (shared % key_heads).to(tl.int64)
    start, _full, _partial, end = key_range(rule, b, split * 0, QUERIES, BN)
    start = tl.maximum(start, split * SPLIT)
    end = tl.minimum(end, split * SPLIT + SPLIT)
    if start < end:
        r = tl.program_id(1) % tiles * BM + tl.arange(0, BM)
        inside = r < rule.group * rule.queries
        i = tl.where(inside, r % rule.queries, rule.queries)
        h = tl.where(inside, shared % key_heads * rule.group + r // rule.queries, 0)
        wide = b.to(tl.int64)
        d = tl.arange(0, D)
        own = wide * q_strides[0] + h.to(tl.int64) * q_strides[1] + i.to(tl.int64) * q_strides[2]
        q = tl.load(Q + own[:, None] + d[None, :], mask=inside[:, None] & (d < dim)[None, :],
                    other=0.0)  # fmt: skip
        keys = K + wide * k_strides[0] + kh * k_strides[1]
        values = V + wide * v_strides[0] + kh * v_strides[1] + chunk * DV
        sizes = (dim, k_strides[2], value_dim - chunk * DV, v_strides[2])
        zero = tl.zeros([BM], ACC)
        state = (tl.zeros([BM, DV], ACC), zero + FLOOR, zero, zero, zero, zero, zero + FLOOR,
                 tl.zeros([BM], tl.int32))  # fmt: skip
        line = (wide * rule.heads + h) * rule.queries + i  # of this launch
        line -= base * rule.group * rule.queries
        kept = tl.where(chunk == 0, rule.keys, 0)  # every chunk finds the same scores
        for n in tl.range(start, end, BN):
            if rule.spelt is None or _is_seen(rule, b, h, i, n):
                state = fold(state, n, q, keys, values, rule, sizes, b, h[:, None], i, asked,
                             line * rule.keys, kept, D, DV, BN, FAST, True, PRECISION, WIDE,
                             False)  # fmt: skip
        if parts.top is not None:  # of the tuple itself Triton 3.6 cannot say so
            _keep(state, parts, line * tl.num_programs(0) + split, inside, chunk, value_dim,
                  asked)  # fmt: skip


@triton.jit
def _keep(state, parts, at, inside, chunk, value_dim, asked):
    """The running numbers of some rows after one split, at row · splits + split."""
    context, top, total, centred, squares, away, raw, count = state
    mine = inside & (at * 0 + chunk == 0)
    # every chunk of values needs these two, and every program finds the same
    tl.store(parts.top + at, top, mask=mine)
    tl.store(parts.total + at, total, mask=mine)
    if asked.entropy is not None:
        tl.store(parts.centred + at, centred, mask=mine)
    if asked.squares is not None:
        tl.store(parts.squares + at, squares, mask=mine)
    if asked.away is not None:
        tl.store(parts.away + at, away, mask=mine)
    if asked.raw is not None:
        tl.store(parts.raw + at, raw, mask=mine)
    if asked.visible is not None:
        tl.store(parts.visible + at, count, mask=mine)
    if asked.output is not None:
        DV: tl.constexpr = context.shape[1]
        c = chunk * DV + tl.arange(0, DV)
        tl.store(parts.context + at[:, None] * value_dim + c[None, :], context,
                 mask=inside[:, None] & (c < value_dim)[None, :])  # fmt: skip


@triton.jit(do_not_specialize=["splits", "base"])
def _combine(
    rule, asked, parts, peak_out, log_out, given_peak, given_log, splits, value_dim, base,
    DV: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr, SPLITS: tl.constexpr,
    QUERIES: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """One row, counted from `base`, one chunk of its values."""
    ACC: tl.constexpr = peak_out.dtype.element_ty
    part = tl.program_id(0).to(tl.int64) * splits
    row = base + tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    unit = (row // rule.queries).to(tl.int32)
    start, _full, _partial, end = key_range(rule, unit // rule.heads, unit * 0, QUERIES, BN)
    start = start // SPLIT
    end = tl.cdiv(tl.maximum(end, 0), SPLIT)
    s = tl.arange(0, SPLITS)
    c = chunk * DV + tl.arange(0, DV)
    top = tl.zeros([1], ACC) + FLOOR
    for n in tl.range(start // SPLITS * SPLITS, end, SPLITS):
        some = (n + s >= start) & (n + s < end)
        mine = tl.load(parts.top + part + n + s, mask=some, other=FLOOR)
        top = tl.maximum(top, tl.max(mine, 0))
    zero = tl.zeros([1], ACC)
    state = (tl.zeros([1, DV], ACC), top, zero, zero, zero, zero, zero + FLOOR,
             tl.zeros([1], tl.int32))  # fmt: skip
    for n in tl.range(start // SPLITS * SPLITS, end, SPLITS):
        some = (n + s >= start) & (n + s < end)
        state = _add(state, rule, asked, parts, part + n + s, some, c, value_dim, FAST)
    finish(state, rule, asked, peak_out, log_out, given_peak, given_log, unit % rule.heads,
           row + tl.zeros([1], tl.int64), row >= tl.zeros([1], tl.int64), chunk, value_dim,
           FAST)  # fmt: skip


@triton.jit
def _add(state, rule, asked, parts, at, some, c, value_dim, FAST: tl.constexpr):
    """Some splits of a row, whose largest score over all splits is known."""
    context, top, total, centred, squares, away, raw, count = state
    mine = tl.load(parts.top + at, mask=some, other=FLOOR)
    part = tl.load(parts.total + at, mask=some, other=0.0)
    times_x = factor(rule, top, FAST)
    unit = log2e(top)
    delta = (mine * times_x) * unit - (top * times_x) * unit
    a = tl.exp2(delta)
    total += tl.sum(a * part, 0)
    if asked.entropy is not None:
        t = tl.load(parts.centred + at, mask=some, other=0.0)
        centred += tl.sum(a * (t + delta * part), 0)
    if asked.squares is not None:
        squares += tl.sum(a * a * tl.load(parts.squares + at, mask=some, other=0.0), 0)
    if asked.away is not None:
        away += tl.sum(a * tl.load(parts.away + at, mask=some, other=0.0), 0)
    if asked.raw is not None:
        raw = tl.maximum(raw, tl.max(tl.load(parts.raw + at, mask=some, other=FLOOR), 0))
    if asked.visible is not None:
        count += tl.sum(tl.load(parts.visible + at, mask=some, other=0), 0)
    if asked.output is not None:
        o = tl.load(parts.context + at[:, None] * value_dim + c[None, :],
                    mask=some[:, None] & (c < value_dim)[None, :], other=0.0)  # fmt: skip
        context += tl.sum(a[:, None] * o, 0)[None, :]
    return context, top, total, centred, squares, away, raw, count


class _Parts(NamedTuple):
    """What splits leave, (rows, splits) each; None where nobody asks."""

    context: Tensor | None  # (rows, splits, Dv)
    top: Tensor | None
    total: Tensor | None
    centred: Tensor | None
    squares: Tensor | None
    away: Tensor | None
    raw: Tensor | None
    visible: Tensor | None


_NOTHING = _Parts(*[None] * len(_Parts._fields))


def _parts(bound: Bound, asked: Asked, rows: int, splits: int) -> _Parts:
    """Unwritten."""
    size = (rows, splits)

    def new(wanted: Tensor | None, *tail: int, dtype: torch.dtype = bound.exact) -> Tensor | None:
        if wanted is None:
            return None
        return torch.empty((*size, *tail), dtype=dtype, device=bound.query.device)

    top, total = (torch.empty(size, dtype=bound.exact, device=bound.query.device) for _ in range(2))
    return _Parts(
        context=new(asked.output, bound.value.shape[-1]), top=top, total=total,
        centred=new(asked.entropy), squares=new(asked.squares), away=new(asked.away),
        raw=new(asked.raw), visible=new(asked.visible, dtype=torch.int32),
    )  # fmt: skip


class Reader(Protocol):
    """Who wants every score, some key heads at a time."""

    heads: int  # key heads at a time, of all batch entries

    def see(self, scores: Tensor, first: int, state: RowState) -> None:
        """(units, L, S), from unit `first` on, whose state is known by now; keys that no query of
        the call sees hold rubbish."""
        ...


def decode(
    bound: Bound,
    output: bool,
    names: set[str],
    given: RowState | None,
    reader: Reader | None = None,
) -> Found:
    """As `forward`, for calls that `decodes` takes."""
    found = new_found(bound, output, names)
    asked = Asked.of(found, found.output if bound.value.shape[-1] else None, None)
    _sweep(bound, asked, found.state, given, reader)
    return found


def look(bound: Bound, state: RowState, reader: Reader) -> None:
    """The scores alone: every row's state is known, and no value is read."""
    _sweep(bound, Asked.of(Found(None, state, {}), None, None), None, state, reader)


def _sweep(
    bound: Bound,
    asked: Asked,
    made: RowState | None,
    given: RowState | None,
    reader: Reader | None,
) -> None:
    """All key heads, as many at a time as the reader wants; `made` is written where it is there."""
    rule = bound.rule
    if bound.units * rule.queries == 0:
        return
    shared = bound.units // rule.group
    many = shared if reader is None else reader.heads
    for first in range(0, shared, many):
        count = min(many, shared - first)
        if reader is not None:
            size = (count * rule.group, rule.queries, rule.keys)
            scores = torch.empty(size, dtype=bound.exact, device=bound.query.device)
            hide(bound, scores)
            asked = asked._replace(scores=scores)
        _launch(bound, asked, made, given, first, count)
        state = made if given is None else given
        if reader is not None and asked.scores is not None and state is not None:
            reader.see(asked.scores, first * rule.group, state)


def _launch(
    bound: Bound,
    asked: Asked,
    made: RowState | None,
    given: RowState | None,
    first: int,
    count: int,
) -> None:
    """Of `count` key heads, from the `first` on."""
    rule, dim, value_dim = bound.rule, bound.query.shape[-1], bound.value.shape[-1]
    rows, splits = rule.group * rule.queries, blocks(rule.keys, _SPLIT)
    shape = _shape(rows, dim, bound.query.dtype)
    tiles = blocks(rows, shape.rows)
    chunk = value_chunk(value_dim, dim) if asked.output is not None else padded(0)
    chunks = blocks(value_dim, chunk) if asked.output is not None else 1
    parts = _NOTHING if made is None else _parts(bound, asked, count * rows, splits)
    fixed = {"DV": chunk, "BN": shape.keys, "SPLIT": _SPLIT, "QUERIES": MOST_QUERIES}
    run(
        _part, (splits, count * tiles, chunks),
        bound.query, bound.key, bound.value if value_dim else bound.key, rule, asked, parts,
        strides_of(bound.query), strides_of(bound.key), strides_of(bound.value), dim, value_dim,
        tiles, first, BM=shape.rows, **fixed, **options(bound, shape),
    )  # fmt: skip
    if made is None:
        return
    given_state: tuple[Any, ...] = (None, None)
    if given is not None:
        given_state = tuple(part.to(bound.exact).contiguous() for part in given)
    run(
        _combine, (count * rows, chunks),
        rule, asked, parts, *made, *given_state, splits, value_dim, first * rows,
        SPLITS=_SPLITS, FAST=bound.fast, num_warps=4, **fixed, **EXACT,
    )  # fmt: skip
