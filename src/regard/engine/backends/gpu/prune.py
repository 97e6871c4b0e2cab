# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""The k heaviest keys by pruning: they lie in the k blocks of 64 keys with the largest maxima.

The forward sweep leaves the maximum of every block, some rows at a time so that memory stays
O(tokens). Then, for these rows:

    wanted    every row finds its k blocks, every block the rows that want it, each with its place:
              which of the row's blocks this is. The least of a row's maxima bounds its k-th score
    gather    a block's scores for the rows that want it; those that reach a row's bound go to the
              slots of its place. Whose slot is which is counted within the tile, so no two
              programs ever write to one; where a row has more than k, the best k go there
    merge     every row takes the first of each place, all under way at once, then the few others

Only a sixteenth of QKᵀ is computed twice at 8,192 keys and k = 8. Equal scores go to the lower
key: equal maxima to the lower block, equal survivors to the lower key. Where a row stands in a list
depends on who counted first; what is computed for it does not. Nothing here waits for the host:
work lists have the length that they can have at most.

A tile's scores stay where the product leaves them: a warp has 16 rows, a thread of it two of these,
8 apart, and of each 16 columns, two in every 8. Other layouts are right as well, and slower.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.decode import decodes
from regard.engine.backends.gpu.launch import (
    EXACT,
    Shape,
    blocks,
    options,
    row_shape,
    run,
    strides_of,
)
from regard.engine.backends.gpu.tile import FLOOR, HIDDEN, load_key_tokens, load_state, score, times
from regard.engine.backends.gpu.top import new_best, write
from regard.engine.backends.gpu.wanted import BLOCK, Wanted, wanted
from regard.engine.call import RowState

_MOST_PLACES = 16
_FEWEST_KEYS = 1024
_FEWEST_BLOCKS = 2  # of keys for each place: among fewer, bounds are loose and most are wanted
_BUFFER = 2**29  # bytes of maxima and survivors at a time
_SHAPE = Shape(64, BLOCK, 4, 2)
_REGISTERS = 128  # where that is enough: four blocks at a time to a multiprocessor
_MERGED = 64  # rows of a merge


def prunes(bound: Bound, count: int) -> bool:
    """Whether pruning pays: half precision, many keys, few of them wanted. The scores of few
    queries are kept."""
    half = bound.query.dtype in (torch.bfloat16, torch.float16)
    fewest = max(_FEWEST_KEYS, _FEWEST_BLOCKS * BLOCK * count)
    many = bound.rule.keys >= fewest and not decodes(bound)
    return half and count <= _MOST_PLACES and many


@triton.jit
def _word(x, key):
    """A score and its key as one number, so that one store or load moves both."""
    return (x.to(tl.int32, bitcast=True).to(tl.int64) << 32) | key.to(tl.int64)


@triton.jit
def _unpacked(word):
    return (word >> 32).to(tl.int32).to(tl.float32, bitcast=True), word.to(tl.int32)


@triton.jit
def _halved(wholes):
    halves = wholes[:0]
    for part in tl.static_range(len(wholes)):
        first, second = tl.split(wholes[part])
        halves += (first, second)
    return halves


@triton.jit
def _apart(x):
    """(64, 64) → 16 times (4, 64), rows as `_turned` has them: each time one number of every
    thread and row, where products leave it. So nothing moves between threads."""
    x = tl.permute(tl.reshape(x, [4, 2, 8, 2, 2, 2, 4, 2]), 6, 1, 0, 2, 3, 4, 5, 7)
    return _halved(_halved(_halved(_halved((tl.reshape(x, [4, 64, 2, 2, 2, 2]),)))))


@triton.jit
def _turned():
    """(64,): rows of a product, the first eight of all warps before their other eight."""
    place = tl.arange(0, 64)
    return place % 32 // 8 * 16 + place // 32 * 8 + place % 8


@triton.jit
def _bounds(want, unit, at, behind, tall, COUNT: tl.constexpr):
    """Of some entries: the least score that is kept, and which of a head's places they are."""
    inside = at < behind
    entry = tl.load(want.entries + unit * COUNT * tall + at, mask=inside, other=0)
    row = entry // COUNT
    # the bound is another kernel's: leave room for its rounding
    least = tl.load(want.least + unit * tall + row, mask=inside, other=3.0e38)
    least = tl.maximum(least - 1.0e-4 * tl.abs(least) - 1.0e-5, FLOOR * 0.99)
    return least, entry % COUNT, row


@triton.jit
def _ranks(count):
    """(4, 64) counts → how many stand before each within its row, and how many in the row: by two
    exchanges between threads, see `maps`."""
    c = tl.reshape(count, [2, 2, 64])
    other = tl.xor_sum(c, 1, keep_dims=True) ^ c
    before = tl.where(tl.arange(0, 2)[None, :, None] == 1, other, 0)
    c += other
    other = tl.xor_sum(c, 0, keep_dims=True) ^ c
    before += tl.where(tl.arange(0, 2)[:, None, None] == 1, other, 0)
    return tl.reshape(before, [4, 64]), tl.reshape(c + other, [4, 64])


@triton.jit
def _keep_all(x, j, rank, least, place, row, words, tall, COUNT: tl.constexpr):
    """Scores that reach their row's bound, to slots from `rank` on."""
    scores = _apart(x)
    keys = _apart(tl.zeros_like(x).to(tl.int32) + j[None, :])
    to = (place * (COUNT * tall) + row)[None, :] + rank * tall
    for part in tl.static_range(16):
        reaches = scores[part] >= least[None, :]
        tl.store(words + to, _word(scores[part], keys[part]), mask=reaches)
        to += tl.where(reaches, tall, 0)


@triton.jit
def _keep_best(x, j, want, unit, at, behind, words, tall, COUNT: tl.constexpr):
    """The best COUNT of them, lower keys first among equals."""
    NONE: tl.constexpr = 2147483647
    least, place, row = _bounds(want, unit, at, behind, tall, COUNT)
    n = 0
    while n < COUNT:  # beside a `for`, the loop over tiles would not fetch ahead
        best = tl.max(x, 1)
        key = tl.min(tl.where(x == best[:, None], j[None, :], NONE), 1)
        to = (place * COUNT + n) * tall + row
        tl.store(words + to, _word(best, key), mask=best >= least)
        x = tl.where(j[None, :] == key[:, None], FLOOR, x)
        n += 1


@triton.jit
def _scores(s, rule, b, h, i, j, block, FAST: tl.constexpr, PLAIN: tl.constexpr):
    """As `score` has them, of rows that exist. What a row sees of a plain mask is one interval,
    and that is one or two comparisons a score."""
    if not PLAIN:
        x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], block * 64, FAST, True)
    else:
        x, _, _, _ = score(s, rule, b, h, i[:, None], j[None, :], block * 64, FAST, False)
        end = i * 0 + rule.keys
        if rule.most is not None:
            end = tl.minimum(end, i + rule.most + 1)
        if rule.high is not None:
            end = tl.minimum(end, tl.load(rule.high + b * rule.span_stride + i))
        x = tl.where(j[None, :] < end[:, None], x, HIDDEN)
        if rule.least is not None:
            x = tl.where(j[None, :] >= (i + rule.least)[:, None], x, HIDDEN)
        if rule.low is not None:
            low = tl.load(rule.low + b * rule.span_stride + i)
            x = tl.where(j[None, :] >= low[:, None], x, HIDDEN)
    return x


@triton.jit(do_not_specialize=["base"])
def _gather(
    Q, K, rule, want, words, base, tall, q_strides, k_strides, dim,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, COUNT: tl.constexpr,
    FAST: tl.constexpr, PLAIN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of keys, some of the rows that want it."""
    unit = tl.program_id(1)
    wide = unit.to(tl.int64)
    # all at once: what there is beyond the last piece of work is rubbish, and not used
    work = wide * want.most + tl.program_id(0)
    pieces = tl.load(want.work_count + unit)
    block = tl.load(want.work_block + work)
    first = tl.load(want.work_first + work)
    behind = tl.load(want.work_behind + work)
    if tl.program_id(0) < pieces:
        b = unit // rule.heads
        h = unit % rule.heads
        j = block * 64 + tl.arange(0, BN)
        d = tl.arange(0, D)
        own = Q + b.to(tl.int64) * q_strides[0] + h.to(tl.int64) * q_strides[1]
        other = K + b.to(tl.int64) * k_strides[0]
        other += (h // rule.group).to(tl.int64) * k_strides[1]
        k = load_key_tokens(other, rule, j, j < rule.keys, dim, k_strides[2], D)
        entries = want.entries + wide * COUNT * tall
        words += wide * COUNT * COUNT * tall
        # tiles pass no vector on to each other: Triton 3.6 takes one that is wanted in several
        # layouts for what it was before the loop, and rows then get the bounds of others
        for start in tl.range(first, behind, BM):
            turned = start + _turned()
            least, place, row = _bounds(want, wide, turned, behind, tall, COUNT)
            at = start + tl.arange(0, BM)
            inside = at < behind
            i = base + tl.load(entries + at, mask=inside, other=0) // COUNT
            q = tl.load(own + i.to(tl.int64)[:, None] * q_strides[2] + d[None, :],
                        mask=inside[:, None] & (d < dim)[None, :], other=0.0)  # fmt: skip
            s = times(q, k.T, PRECISION, WIDE)
            x = _scores(s, rule, b, h, i, j, block, FAST, PLAIN)
            count = tl.zeros([4, BM], tl.int32)
            scores = _apart(x)
            for part in tl.static_range(16):
                count += (scores[part] >= least[None, :]).to(tl.int32)
            rank, many = _ranks(count)
            if tl.max(tl.max(many, 0), 0) <= COUNT:
                _keep_all(x, j, rank, least, place, row, words, tall, COUNT)
            else:
                _keep_best(x, j, want, wide, at, behind, words, tall, COUNT)
            to = (place * tall + row)[None, :] + tl.zeros_like(many)
            mine = (turned < behind)[None, :] & (tl.arange(0, 4) == 0)[:, None]
            tl.store(want.held + wide * COUNT * tall + to, tl.minimum(many, COUNT), mask=mine)


@triton.jit
def _insert_key(values, keys, x, key):
    """x into descending places; equal ones stand by key, and nothing stands behind everything."""
    made = values[:0]
    made_keys = keys[:0]
    above = x
    above_key = key
    for place in tl.static_range(len(values)):
        # a place behind x takes what stood above it, or x itself where x does not pass that
        v = values[place]
        name = keys[place]
        before = (x > v) | ((x == v) & (key < name))
        made += (tl.where(before, above, v),)
        made_keys += (tl.where(before, above_key, name),)
        above = tl.where(before, v, x)
        above_key = tl.where(before, name, key)
    return made, made_keys


@triton.jit
def _pairwise(parts, HALF: tl.constexpr):
    joined = parts[:0]
    for place in tl.static_range(HALF):
        joined += (tl.join(parts[place], parts[place + HALF]),)
    return joined


@triton.jit
def _beside(parts, LEVELS: tl.constexpr):
    """Some (rows,) → (rows, 2^LEVELS), a row's numbers in one thread; the first again behind."""
    for _ in tl.static_range(2**LEVELS - len(parts)):
        parts += (parts[0],)
    for level in tl.static_range(LEVELS):
        parts = _pairwise(parts, 2 ** (LEVELS - level - 1))
    return tl.reshape(parts[0], [parts[0].shape[0], 2**LEVELS])


@triton.jit
def _other_slot(starts, e):
    """Which of a place's slots the e-th survivor is that is not the first of its place."""
    place = e * 0
    begin = e * 0
    for p in tl.static_range(1, len(starts)):
        behind = e >= starts[p]
        place = tl.where(behind, p, place)
        begin = tl.where(behind, starts[p], begin)
    return place * len(starts) + (e - begin + 1)


@triton.jit(do_not_specialize=["base"])
def _merge(
    rule, held, words, peak, log, found, base, tall,
    ROWS: tl.constexpr, COUNT: tl.constexpr, LEVELS: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The best of some rows' survivors: the first of every place, under way all at once, and then
    the few others."""
    NONE: tl.constexpr = 2147483647
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1).to(tl.int64)
    inside = (row < tall) & (base + row < rule.queries)
    at = unit * rule.queries + base + row
    p_row, l_row = load_state(peak, log, at, inside)
    held += unit * COUNT * tall + row
    words += unit * COUNT * COUNT * tall + row
    none = ((row,) * COUNT)[:0]
    counts = none
    firsts = none
    for place in tl.static_range(COUNT):
        counts += (tl.load(held + place * tall, mask=inside, other=0),)
        firsts += (tl.load(words + place * COUNT * tall, mask=inside, other=0),)
    best = none
    names = none
    starts = none
    others = row * 0
    for place in tl.static_range(COUNT):
        x, key = _unpacked(firsts[place])
        x = tl.where(counts[place] > 0, x, FLOOR)
        key = tl.where(counts[place] > 0, key, NONE)
        best += (tl.zeros([ROWS], tl.float32) + FLOOR,)
        names += (row * 0 + NONE,)
        best, names = _insert_key(best, names, x, key)
        starts += (others,)
        others += tl.maximum(counts[place] - 1, 0)
    for e in range(tl.max(others, 0)):
        slot = _other_slot(starts, row * 0 + e)
        x, key = _unpacked(tl.load(words + slot * tall, mask=e < others, other=0))
        x = tl.where(e < others, x, FLOOR)
        best, names = _insert_key(best, names, x, tl.where(e < others, key, NONE))
    place = tl.arange(0, 2**LEVELS)[None, :]
    write(_beside(best, LEVELS), _beside(names, LEVELS), rule, p_row[:, None], l_row[:, None],
          found, at[:, None] * COUNT + place, inside[:, None] & (place < COUNT), FAST)  # fmt: skip


class Pruner:
    """Watches a forward sweep; then knows the best keys."""

    def __init__(self, bound: Bound, count: int) -> None:
        self.bound, self.count = bound, count
        self.tall = self._rows_at_a_time()
        self.best = new_best(bound, count)

    def _rows_at_a_time(self) -> int:
        """A power of two that the buffer holds, so that blocks of rows fill the machine evenly."""
        bound = self.bound
        least = row_shape(bound.query.shape[-1], bound.query.dtype).rows
        row = blocks(bound.rule.keys, BLOCK) * 4 + self.count * (self.count * 8 + 16)
        fit = max(1, _BUFFER // max(1, bound.units * row))
        fit = max(least, 1 << (fit.bit_length() - 1))
        return min(fit, blocks(bound.rule.queries, least) * least)

    def see(self, maxima: Tensor, start: int, state: RowState) -> None:
        """Find the best keys of these rows."""
        bound = self.bound
        if bound.units * bound.rule.queries * bound.rule.keys == 0:
            return
        want = wanted(bound, maxima, start, self.count)
        words = self._gather(want, start)
        peak, log = (part.to(bound.exact).contiguous() for part in state)
        run(
            _merge, (blocks(self.tall, _MERGED), bound.units),
            bound.rule, want.held, words, peak, log, self.best, start, self.tall,
            ROWS=_MERGED, COUNT=self.count, LEVELS=(self.count - 1).bit_length(),
            FAST=bound.fast, num_warps=2, **EXACT,
        )  # fmt: skip

    def _gather(self, want: Wanted, start: int) -> Tensor:
        """Survivors (units, places, k, rows): scores and keys."""
        bound = self.bound
        size = (bound.units, self.count, self.count, self.tall)
        words = torch.empty(size, dtype=torch.int64, device=bound.query.device)
        roomy = not bound.plain or bound.query.shape[-1] > 128
        shape = _SHAPE._replace(registers=None if roomy else _REGISTERS)
        run(
            _gather, (want.most, bound.units),
            bound.query, bound.key, bound.rule, want, words, start, self.tall,
            strides_of(bound.query), strides_of(bound.key), bound.query.shape[-1],
            BM=shape.rows, BN=shape.keys, COUNT=self.count, **options(bound, shape),
        )  # fmt: skip
        return words
