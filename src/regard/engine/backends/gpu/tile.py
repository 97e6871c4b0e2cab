# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""One tile inside a kernel: its products, its scores, which of them count, its weights.

    x       what stands for a score in registers: q·k where the final score is scale·q·k, the
            final score itself elsewhere; −2e38 where hidden. factor·x is the final score
    weight  exp((score − peak) − log), as 2^(fma(x, factor·log₂e, −peak·log₂e) − log·log₂e): the
            same arithmetic in every kernel
    i, j    places of queries and keys, of shapes that broadcast: (R, 1) and (1, C), or turned
    near    a key of the square in which the keys j lie: one for all of them where a tile is walked
            over, j itself where they lie anywhere. Only masks that are spelt out ask for it

Hidden scores are finite, so that no ∞ − ∞ arises; a running maximum starts above them at −1e38,
and visible scores below −9e37 count as that. A row that sees nothing has peak −∞.
"""

from __future__ import annotations

import triton
import triton.language as tl

from regard.engine.backends.gpu import spelt

HIDDEN = tl.constexpr(-2.0e38)
FLOOR = tl.constexpr(-1.0e38)
LOWEST = tl.constexpr(-9.0e37)

SIDE = tl.constexpr(spelt.SIDE)
NOBODY = tl.constexpr(spelt.NOBODY)
EVERYBODY = tl.constexpr(spelt.EVERYBODY)


@triton.jit
def log2e(like):
    """log₂ e in the precision of `like`: a bare number would be single."""
    return tl.full((), 1.4426950408889634, like.dtype)


@triton.jit
def ln2(like):
    """log 2 in the precision of `like`."""
    return tl.full((), 0.6931471805599453, like.dtype)


@triton.jit
def number(value, like):
    """A number of the rule, in the precision of `like`; doubles come as tensors of one."""
    if like.dtype == tl.float64:
        return tl.load(value)
    else:
        return value


@triton.jit
def tanh(z):
    """1 − 2 / (e^{2|z|} + 1) with the sign of z; where that cancels, the continued fraction
    z / (1 + z² / (3 + z² / (5 + … 13))), good for doubles, as what z loses of itself."""
    far = 1.0 - 2.0 / (tl.exp2((2.0 * log2e(z)) * tl.abs(z)) + 1.0)
    far = tl.where(z < 0, -far, far)
    q = z * z
    above = (27.0 * q + 2772.0) * q + 45045.0
    below = ((28.0 * q + 3150.0) * q + 62370.0) * q + 135135.0
    return tl.where(tl.abs(z) < 0.5, z - z * q * (above / below), far)


@triton.jit
def factor(rule, like, FAST: tl.constexpr):
    """factor·x is the final score."""
    if FAST:
        return number(rule.scale, like)
    else:
        return 1.0


@triton.jit
def times(a, b, PRECISION: tl.constexpr, WIDE: tl.constexpr):
    """a @ b; the interpreter has no half-precision products, so it gets wide ones."""
    if WIDE and a.dtype != tl.float64:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def source(base, count, dim, stride, ROWS: tl.constexpr, D: tl.constexpr, TMA: tl.constexpr):
    """Where `load_rows` reads: a descriptor for the copy engine, or the pointer itself."""
    if TMA:
        return tl.make_tensor_descriptor(base, [count, dim], [stride, 1], [ROWS, D])
    else:
        return base


@triton.jit
def load_rows(src, first, count, dim, stride, ROWS: tl.constexpr, D: tl.constexpr,
              TMA: tl.constexpr):  # fmt: skip
    """(ROWS, D), zero outside."""
    if TMA:
        return src.load([first, 0])
    else:
        r = first + tl.arange(0, ROWS)
        c = tl.arange(0, D)
        inside = (r < count)[:, None] & (c < dim)[None, :]
        at = r.to(tl.int64)[:, None] * stride + c[None, :]
        return tl.load(src + at, mask=inside, other=0.0)


@triton.jit
def key_offsets(rule, j, there, stride):
    """Where keys begin: a stride apart, or as a cache's table says."""
    if rule.key_rows is None:
        return j.to(tl.int64) * stride
    else:
        return tl.load(rule.key_rows + j, mask=there, other=0)


@triton.jit
def load_keys(src, rule, first, dim, stride, ROWS: tl.constexpr, D: tl.constexpr,
              TMA: tl.constexpr):  # fmt: skip
    """(ROWS, D) keys from `first` on, zero outside."""
    if rule.key_rows is None:
        return load_rows(src, first, rule.keys, dim, stride, ROWS, D, TMA)
    else:
        j = first + tl.arange(0, ROWS)
        return load_key_tokens(src, rule, j, j < rule.keys, dim, stride, D)


@triton.jit
def load_key_tokens(base, rule, j, there, dim, stride, D: tl.constexpr):
    """(KEYS, D): keys that stand anywhere, zero where they are not there."""
    d = tl.arange(0, D)
    inside = there[:, None] & (d < dim)[None, :]
    at = key_offsets(rule, j, there, stride)[:, None] + d[None, :]
    return tl.load(base + at, mask=inside, other=0.0)


@triton.jit
def load_tokens(base, tokens, there, dim, stride, D: tl.constexpr):
    """(TOKENS, D): rows that stand anywhere, zero where they are not there."""
    d = tl.arange(0, D)
    inside = there[:, None] & (d < dim)[None, :]
    at = tokens.to(tl.int64)[:, None] * stride + d[None, :]
    return tl.load(base + at, mask=inside, other=0.0)


@triton.jit
def square(rule, b, h, i, j):
    """Whether nobody or everybody sees the squares around some cells, or where their bits are."""
    at = b * rule.spelt_strides[0] + h * rule.spelt_strides[1]
    at = at + i // SIDE * rule.spelt_strides[2] + j // SIDE
    inside = (i < rule.queries) & (i * 0 + j < rule.keys)
    return tl.load(rule.spelt.squares + at, mask=inside, other=NOBODY)


@triton.jit
def _bit(rule, b, h, i, j, near, ok):
    """What is spelt out for some cells; squares that everybody sees or nobody have no bits."""
    WIDTH: tl.constexpr = rule.spelt.bits.dtype.element_ty.primitive_bitwidth
    place = square(rule, b, h, i, near)
    at = place.to(tl.int64) * (SIDE * SIDE // WIDTH) + i % SIDE * (SIDE // WIDTH)
    word = tl.load(rule.spelt.bits + (at + j % SIDE // WIDTH), mask=ok & (place >= 0), other=0)
    return (place == EVERYBODY) | (((word.to(tl.int32) >> (j % WIDTH)) & 1) != 0)


@triton.jit
def allowed(rule, b, h, i, j, near):
    """Which cells the mask lets through; a bias of −∞ hides as well, see `score`."""
    ok = (i < rule.queries) & (j < rule.keys)
    if rule.most is not None:
        ok &= j - i <= rule.most
    if rule.least is not None:
        ok &= j - i >= rule.least
    if rule.low is not None:
        at = b * rule.span_stride + i
        row = i < rule.queries
        low = tl.load(rule.low + at, mask=row, other=0)
        high = tl.load(rule.high + at, mask=row, other=0)
        within = (j >= low) & (j < high)
        if rule.low_2 is not None:
            low = tl.load(rule.low_2 + at, mask=row, other=0)
            high = tl.load(rule.high_2 + at, mask=row, other=0)
            within |= (j >= low) & (j < high)
        ok &= within
    if rule.query_ids is not None:
        own = tl.load(rule.query_ids + b * rule.query_id_stride + i, mask=i < rule.queries, other=0)
        other = tl.load(rule.key_ids + b * rule.key_id_stride + j, mask=j < rule.keys, other=0)
        ok &= own == other
    if rule.flags is not None:
        ok &= tl.load(rule.flags + b * rule.flag_stride + j, mask=j < rule.keys, other=0) != 0
    if rule.table is not None:
        at = b.to(tl.int64) * rule.table_strides[0] + h.to(tl.int64) * rule.table_strides[1]
        at += i.to(tl.int64) * rule.table_strides[2] + j.to(tl.int64) * rule.table_strides[3]
        ok &= tl.load(rule.table + at, mask=ok, other=0) != 0
    if rule.spelt is not None:
        ok &= _bit(rule, b, h, i, j, near, ok)
    return ok


@triton.jit
def score(s, rule, b, h, i, j, near, FAST: tl.constexpr, MASKED: tl.constexpr):
    """(x, scaled, slope, seen): scale → soft cap → bias → mask. slope is d capped / d scaled."""
    scaled = s
    slope = s
    seen = (i < rule.queries) & (j < rule.keys)
    if FAST:
        x = s
    else:
        scaled = s * number(rule.scale, s)
        x = scaled
        if rule.softcap is not None:
            cap = number(rule.softcap, s)
            bent = tanh(x / cap)
            slope = 1.0 - bent * bent
            x = cap * bent
        if rule.slopes is not None:
            away = tl.abs(i + rule.bias_shift - j).to(s.dtype)
            x = x - tl.load(rule.slopes + h) * away
        if rule.by_distance is not None:
            ahead = tl.minimum(tl.maximum(j - i - rule.bias_shift, -rule.reach), rule.reach)
            wide = 2 * rule.reach + 1
            x = x + tl.load(rule.by_distance + h * wide + ahead + rule.reach)
    if MASKED:
        seen = allowed(rule, b, h, i, j, near)
        if rule.bias is not None:
            at = b.to(tl.int64) * rule.bias_strides[0] + h.to(tl.int64) * rule.bias_strides[1]
            at += i.to(tl.int64) * rule.bias_strides[2] + j.to(tl.int64) * rule.bias_strides[3]
            bias = tl.load(rule.bias + at, mask=seen, other=-float("inf")).to(s.dtype)
            seen = bias != -float("inf")
            moved = x + tl.where(seen, bias, 0.0)
            x = tl.where(moved < LOWEST, LOWEST, moved)
        x = tl.where(seen, x, HIDDEN)
    return x, scaled, slope, seen


@triton.jit
def load_state(peak, log, at, inside):
    """peak·log₂e and log·log₂e of some rows; such that every weight is 0 in rows that see
    nothing or do not exist."""
    p = tl.load(peak + at, mask=inside, other=-float("inf"))
    g = tl.load(log + at, mask=inside, other=0.0)
    empty = p == -float("inf")
    p = tl.where(p < LOWEST, LOWEST, p)
    return tl.where(empty, 0.0, p * log2e(p)), tl.where(empty, 1.0e30, g * log2e(p))


@triton.jit
def weight(x, per, peak, log):
    """2^(x·per − peak − log), and its exponent; per = factor·log₂e."""
    u = tl.fma(x, tl.zeros_like(x) + per, tl.zeros_like(x) - peak) - log
    return tl.exp2(u), u


@triton.jit
def stands_at(rule, i):
    """The key at which each query stands, where distances are measured."""
    if rule.places is None:
        return i + rule.position
    else:
        return tl.load(rule.places + i, mask=i < rule.queries, other=0)


@triton.jit
def key_range(rule, b, first, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """(start, full, partial, end): keys that some row of the block sees, in whole tiles; between
    full and partial, every row sees all of them (unless flags, ids or tables say otherwise)."""
    last = tl.minimum(first + ROWS, rule.queries) - 1
    start = first * 0
    full = first * 0
    partial = start + rule.keys
    end = start + rule.keys
    if rule.most is not None:
        end = tl.minimum(end, last + rule.most + 1)
        partial = tl.minimum(partial, first + rule.most + 1)
    if rule.least is not None:
        start = tl.maximum(start, first + rule.least)
        full = tl.maximum(full, last + rule.least)
    if rule.low is not None:
        i = first + tl.arange(0, ROWS)
        row = i < rule.queries
        at = b * rule.span_stride + i
        low = tl.load(rule.low + at, mask=row, other=0)
        high = tl.load(rule.high + at, mask=row, other=0)
        if rule.low_2 is not None:
            low_2 = tl.load(rule.low_2 + at, mask=row, other=0)
            high_2 = tl.load(rule.high_2 + at, mask=row, other=0)
            low = tl.where(low < high, low, rule.keys)
            low_2 = tl.where(low_2 < high_2, low_2, rule.keys)
            low = tl.minimum(low, low_2)
            high = tl.maximum(high, high_2)
        some = row & (low < high)
        start = tl.maximum(start, tl.min(tl.where(some, low, rule.keys), 0))
        end = tl.minimum(end, tl.max(tl.where(some, high, 0), 0))
        full = tl.maximum(full, tl.max(tl.where(row, low, 0), 0))
        partial = tl.minimum(partial, tl.min(tl.where(row, high, rule.keys), 0))
    start = start // KEYS * KEYS
    full = tl.maximum((full + KEYS - 1) // KEYS * KEYS, start)
    partial = tl.maximum(partial // KEYS * KEYS, full)
    return start, full, partial, end


@triton.jit
def query_range(rule, b, first, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    """(start, full, partial, end): queries that may see some key of the block, by the band and the
    rows' intervals; between full and partial, all of them see all of it (unless anything but a band
    says no)."""
    last = tl.minimum(first + KEYS, rule.keys) - 1
    start = first * 0
    full = first * 0
    partial = start + rule.queries
    end = start + rule.queries
    if rule.most is not None:
        start = tl.maximum(start, first - rule.most)
        full = tl.maximum(full, last - rule.most)
    if rule.least is not None:
        end = tl.minimum(end, last - rule.least + 1)
        partial = tl.minimum(partial, first - rule.least + 1)
    if rule.first_query is not None:
        j = first + tl.arange(0, KEYS)
        at = b * rule.seen_stride + j
        reached = tl.load(rule.first_query + at, mask=j < rule.keys, other=rule.queries)
        behind = tl.load(rule.behind_query + at, mask=j < rule.keys, other=0)
        start = tl.maximum(start, tl.min(reached, 0))
        end = tl.minimum(end, tl.max(behind, 0))
    start = start // QUERIES * QUERIES
    full = tl.maximum((full + QUERIES - 1) // QUERIES * QUERIES, start)
    partial = tl.maximum(partial // QUERIES * QUERIES, full)
    return start, full, partial, end


@triton.jit
def meets(rule, b, n, first, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    """Whether the interval of some query of a tile reaches a key of it."""
    if rule.low is None:
        return True
    else:
        start, _full, _partial, end = key_range(rule, b, n, QUERIES, KEYS)
        return (start < first + KEYS) & (end > first)


@triton.jit
def key_steps(rule, b, h, first, start, end):
    """(start, end) of a walk over the keys of a block of queries: these keys, or as many steps as
    there are keys in squares that some query near the block sees something of."""
    if rule.spelt is not None:
        start = start * 0
        end = tl.load(_line(rule, rule.spelt.by_query, 3, b, h, first))
    return start, end


@triton.jit
def key_at(rule, b, h, first, step):
    """The key at a step of such a walk."""
    if rule.spelt is None:
        return step
    else:
        return _there(_line(rule, rule.spelt.by_query, 3, b, h, first), step)


@triton.jit
def query_steps(rule, b, h, first, start, end):
    """(start, end) of a walk over the queries of a block of keys."""
    if rule.spelt is not None:
        start = start * 0
        end = tl.load(_line(rule, rule.spelt.by_key, 6, b, h, first))
    return start, end


@triton.jit
def query_at(rule, b, h, first, step):
    """The query at a step of such a walk."""
    if rule.spelt is None:
        return step
    else:
        return _there(_line(rule, rule.spelt.by_key, 6, b, h, first), step)


@triton.jit
def _line(rule, lines, AT: tl.constexpr, b, h, first):
    """Where the walk of a block begins: its length, then its squares."""
    at = b * rule.spelt_strides[AT] + h * rule.spelt_strides[AT + 1]
    return lines + (at + first // SIDE * rule.spelt_strides[AT + 2])


@triton.jit
def _there(line, step):
    turn = step // SIDE
    return (tl.load(line + 1 + turn) - turn) * SIDE + step


@triton.jit
def clear_queries(rule, first, full, partial, end, KEYS: tl.constexpr):
    """(full, partial) where a band is all there is: rows beyond the last weigh nothing and
    need no mask; keys beyond the last do weigh, and every tile of their block needs one."""
    if rule.least is None:
        partial = end
    ragged = first + KEYS > rule.keys
    return tl.where(ragged, end, full), tl.where(ragged, end, partial)
