# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""One tile of scores, folded into the running numbers of 64 rows (see ../forward.py for the sums).

    s       q·k, unscaled, (64, KEYS) in the registers of four warps
    top     the largest so far
    m       what powers are taken against: an earlier top·scale·log₂e, at most SLACK below the true
            one. No weight is above 2^SLACK then, and nothing shrinks while a maximum creeps up

A product and a sum are fused where the code says so and nowhere else (launch.EXACT): otherwise the
m − m of a row that has seen nothing is the rounding error of 1e37, and 2 to its power infinite;
and a masked tile need not leave the bits that a plain one leaves.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from regard.engine.backends.gpu.tile import FLOOR, HIDDEN

LOG2E = gl.constexpr(1.4426950408889634)
_SLACK = gl.constexpr(8.0)  # weights up to 256 lose nothing in half precision

# (64, 4): a row's sums as the four threads hold them that hold its scores; they meet at the end
_PARTS = gl.constexpr(
    gl.DistributedLinearLayout(
        reg_bases=[[8, 0]],
        lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]],
        block_bases=[],
        shape=[64, 4],
    )
)


@gluon.jit
def nothing(sight, ROWS: gl.constexpr):
    """Numbers before the first tile: top, m, then parts of total, centred, squares, away."""
    top = gl.full([64], FLOOR, gl.float32, layout=ROWS)
    zero = gl.zeros([64, 4], gl.float32, layout=_PARTS)
    return top, (top * sight.scale) * LOG2E, zero, zero, zero, zero


@gluon.jit
def whole(parts, ROWS: gl.constexpr):
    """(64,): the sum of a row's parts."""
    return gl.convert_layout(gl.sum(parts, 1), ROWS)


@gluon.jit
def _strip(x, KEYS: gl.constexpr):
    """(64, 4, KEYS / 4): what a thread has of a row lies along the last axis."""
    pairs = gl.reshape(x, [64, KEYS // 8, 4, 2])
    return gl.reshape(gl.permute(pairs, (0, 2, 1, 3)), [64, 4, KEYS // 4])


@gluon.jit
def _pairs(x):
    """Two of (64, 4, N / 2), neighbours apart; nothing moves."""
    HALF: gl.constexpr = x.shape[2] // 2
    return gl.split(gl.reshape(x, [64, 4, HALF, 2]))


@gluon.jit
def _fours(x):
    """Four of (64, 4, N / 4): neighbours again, so that a sum can follow its exponentials."""
    a, b = _pairs(x)
    return _pairs(a) + _pairs(b)


@gluon.jit
def along(row):
    """(64,) → (64, 4)."""
    column = gl.convert_layout(row, gl.SliceLayout(1, _PARTS))[:, None]
    return gl.zeros([64, 4], gl.float32, layout=_PARTS) + column


@gluon.jit
def _sum(x, KEYS: gl.constexpr):
    """Σ x, in parts."""
    a, b = _pairs(_strip(x, KEYS))
    return gl.convert_layout(gl.sum(a + b, 2), _PARTS)


@gluon.jit
def _most(x, KEYS: gl.constexpr, ROWS: gl.constexpr):
    """(64,): the largest of every row."""
    a, b, c, d = _fours(_strip(x, KEYS))
    most = gl.max(gl.maximum(gl.maximum(a, b), gl.maximum(c, d)), 2)
    return gl.convert_layout(gl.max(most, 1), ROWS)


@gluon.jit
def _dot(x, y, KEYS: gl.constexpr):
    """Σ x·y, in parts: eight products fused, then summed."""
    a, b, c, d = _fours(_strip(x, KEYS))
    e, f, g, h = _fours(_strip(y, KEYS))
    one = _fused(d, h, _fused(c, g, None))
    fused = _fused(a, e, _fused(b, f, one))
    return gl.convert_layout(gl.sum(fused, 2), _PARTS)


@gluon.jit
def _fused(x, y, more):
    """Two neighbours' products, and more; half as long."""
    a, b = _pairs(x)
    c, d = _pairs(y)
    if more is None:
        return gl.fma(a, c, b * d)
    else:
        return gl.fma(a, c, gl.fma(b, d, more))


@gluon.jit
def limits(sight, b, i):
    """Row i sees the keys low ≤ j < high."""
    low = i * 0
    high = low + sight.keys
    if sight.most is not None:
        high = gl.minimum(high, i + sight.most + 1)
    if sight.least is not None:
        low = gl.maximum(low, i + sight.least)
    if sight.low is not None:
        at = b * sight.span_stride + i
        row = i < sight.queries
        low = gl.maximum(low, gl.load(sight.low + at, mask=row, other=0))
        high = gl.minimum(high, gl.load(sight.high + at, mask=row, other=0))
    return low, high


@gluon.jit
def _largest(s, n, unit, i, work, KEYS: gl.constexpr, ROWS: gl.constexpr,
             MASKED: gl.constexpr):  # fmt: skip
    """Of every row; on the way, of every 64 keys, for `prune`."""
    if work.asked.maxima is not None:
        gl.static_assert(KEYS == 128)
        a, b = gl.split(gl.permute(gl.reshape(s, [64, 2, 64]), (0, 2, 1)))
        one = _most(a, 64, ROWS)
        two = _most(b, 64, ROWS)
        # (units, blocks of keys, rows of this launch, whole blocks of them)
        line = unit.to(gl.int64) * gl.cdiv(work.sight.keys, 64) + n // 64
        place = work.asked.maxima + line * work.plan.tall - work.plan.base * 128
        gl.store(place + i, one)
        if MASKED:
            gl.store((place + work.plan.tall) + i, two, mask=i * 0 + n + 64 < work.sight.keys)
        else:
            gl.store((place + work.plan.tall) + i, two)
        return gl.maximum(one, two)
    else:
        return _most(s, KEYS, ROWS)


@gluon.jit
def fold(s, n, numbers, unit, i, work, KEYS: gl.constexpr, SCORES: gl.constexpr,
         MASKED: gl.constexpr):  # fmt: skip
    """(weights against the new m, what the old ones shrink by, the new numbers)."""
    ROWS: gl.constexpr = gl.SliceLayout(1, SCORES)
    top, m, total, centred, squares, away = numbers
    j = n + gl.arange(0, KEYS, layout=gl.SliceLayout(0, SCORES))
    if MASKED:
        low, high = limits(work.sight, unit // work.sight.heads, i)
        seen = j[None, :] < high[:, None]
        if work.sight.least is not None or work.sight.low is not None:
            seen &= j[None, :] >= low[:, None]
        s = gl.where(seen, s, HIDDEN)
    top = gl.maximum(top, _largest(s, n, unit, i, work, KEYS, ROWS, MASKED))
    height = (top * work.sight.scale) * LOG2E
    new = gl.where(height - m > _SLACK, height, m)
    delta = m - new
    a = gl.exp2(delta)
    zeros = gl.zeros([64, KEYS], gl.float32, layout=SCORES)
    u = gl.fma(s, zeros + work.sight.scale * LOG2E, zeros - new[:, None])
    p = gl.exp2(u)
    shrink = along(a)
    if work.asked.entropy is not None:
        moved = gl.fma(along(delta), total, centred)
        centred = gl.fma(shrink, moved, _dot(p, u, KEYS))
    total = gl.fma(shrink, total, _sum(p, KEYS))
    if work.asked.squares is not None:
        squares = gl.fma(shrink * shrink, squares, _dot(p, p, KEYS))
    if work.asked.away is not None:
        distance = gl.abs((i + work.sight.position)[:, None] - j[None, :]).to(gl.float32)
        away = gl.fma(shrink, away, _dot(p, distance, KEYS))
    return p, a, (top, new, total, centred, squares, away)
