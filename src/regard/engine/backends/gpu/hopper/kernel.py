# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""One producer warp and two consumer groups, joined by barriers in shared memory.

Keys and values lie in rings of STAGES tiles. A `full` barrier says that a tile has arrived, an
`empty` one that both consumers are through with it; queries have a pair of their own. Everybody
counts tiles over all turns:

    slot = count mod STAGES        phase = count div STAGES, odd or even
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from regard.engine.backends.gpu.hopper.finish import finish
from regard.engine.backends.gpu.hopper.fold import along, fold, nothing
from regard.engine.backends.gpu.hopper.gluon import copy_in
from regard.engine.backends.gpu.hopper.rescale import rescaled, voted
from regard.engine.backends.gpu.hopper.walk import deal, turns_of, walk
from regard.engine.backends.gpu.hopper.work import Pipe, Schedule, Sight, Work

_copy = copy_in(tma)

# whole numbers for which the kernel is not compiled again
SIZES = (
    "batch", "heads", "group", "queries", "keys", "position", "least", "most", "span_stride",
    "range_stride", "items", "blocks", "base", "tall", "crowd", "q_batch", "q_head", "q_token",
    "k_batch", "k_head", "k_token", "v_batch", "v_head", "v_token",
)  # fmt: skip


@gluon.jit
def _produce(sources, pipe, work, D: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
             OUTPUT: gl.constexpr):  # fmt: skip
    """Copies the tiles of every turn, each as soon as there is room."""
    sight = work.sight
    count = 0
    for turn in range(turns_of(work.plan)):
        unit, block = deal(turn, work.plan)
        b = unit // sight.heads
        h = unit % sight.heads
        first = (work.plan.base + block) * 128
        last, _, _, tiles = walk(sight, b, first, 128, KEYS)
        mbarrier.wait(pipe.q_empty, (turn & 1) ^ 1)
        mbarrier.expect(pipe.q_full, 128 * D * 2)
        for half in gl.static_range(2):
            _copy(sources[0], [b, h, first + half * 64, 0], pipe.q_full, pipe.q.index(half))
        for step in range(tiles):
            slot = count % STAGES
            phase = ((count // STAGES) & 1) ^ 1
            place = [b, h // sight.group, (last - step) * KEYS, 0]
            mbarrier.wait(pipe.k_empty.index(slot), phase)
            mbarrier.expect(pipe.k_full.index(slot), KEYS * D * 2)
            _copy(sources[1], place, pipe.k_full.index(slot), pipe.k.index(slot))
            if OUTPUT:
                mbarrier.wait(pipe.v_empty.index(slot), phase)
                mbarrier.expect(pipe.v_full.index(slot), KEYS * D * 2)
                _copy(sources[2], place, pipe.v_full.index(slot), pipe.v.index(slot))
            count += 1


@gluon.jit
def _scores(q, pipe, count, KEYS: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
            SCORES: gl.constexpr):  # fmt: skip
    """q·kᵀ of the tile that is next, under way."""
    mbarrier.wait(pipe.k_full.index(count % STAGES), (count // STAGES) & 1)
    zeros = gl.zeros([64, KEYS], gl.float32, layout=SCORES)
    k = pipe.k.index(count % STAGES).reshape([KEYS, D]).permute((1, 0))
    return warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)


@gluon.jit
def _product(weights, context, pipe, count, KEYS: gl.constexpr, D: gl.constexpr,
             STAGES: gl.constexpr):  # fmt: skip
    """context + weights @ v, under way."""
    mbarrier.wait(pipe.v_full.index(count % STAGES), (count // STAGES) & 1)
    v = pipe.v.index(count % STAGES).reshape([KEYS, D])
    return warpgroup_mma(weights, v, context, is_async=True)


@gluon.jit
def _step(n, count, weights, context, numbers, q, pipe, work, unit, i,
          D: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, SCORES: gl.constexpr,
          VALUES: gl.constexpr, OUTPUT: gl.constexpr, MASKED: gl.constexpr):  # fmt: skip
    """One tile; its scores run beside the product of the last tile's weights and values. Nothing is
    under way at the end: across a loop's edge the compiler would wait for it at once."""
    s = _scores(q, pipe, count, KEYS, D, STAGES, SCORES)
    if OUTPUT:
        product = _product(weights, context, pipe, count - 1, KEYS, D, STAGES)
        s = warpgroup_mma_wait(1, deps=(s,))
    else:
        s = warpgroup_mma_wait(0, deps=(s,))
    mbarrier.arrive(pipe.k_empty.index(count % STAGES), count=1)
    p, a, numbers = fold(s, n, numbers, unit, i, work, KEYS, SCORES, MASKED)
    if OUTPUT:
        top, m, total, centred, squares, away = numbers
        p = p.to(q.dtype)
        by = voted(along(a), total, centred)
        before = (count - 1) % STAGES
        # long over; but the compiler moves no softmax below a barrier
        mbarrier.wait(pipe.v_full.index(before), ((count - 1) // STAGES) & 1)
        context, p, total = warpgroup_mma_wait(0, deps=(product, p, total))
        mbarrier.arrive(pipe.v_empty.index(before), count=1)
        context = rescaled(context, by, D, VALUES)
        weights = gl.convert_layout(p, gl.DotOperandLayout(0, VALUES, 2))
        numbers = (top, m, total, centred, squares, away)
    return weights, context, numbers


@gluon.jit
def _rows(group, count, turn, pipe, work, D: gl.constexpr, KEYS: gl.constexpr,
          STAGES: gl.constexpr, OUTPUT: gl.constexpr):  # fmt: skip
    """64 rows from their first tile to their numbers; the new count."""
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    VALUES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    sight = work.sight
    unit, block = deal(turn, work.plan)
    first = (work.plan.base + block) * 128
    last, right, left, tiles = walk(sight, unit // sight.heads, first, 128, KEYS)
    i = first + group * 64 + gl.arange(0, 64, layout=gl.SliceLayout(1, SCORES))
    mbarrier.wait(pipe.q_full, turn & 1)
    q = pipe.q.index(group).reshape([64, D])

    s = warpgroup_mma_wait(0, deps=(_scores(q, pipe, count, KEYS, D, STAGES, SCORES),))
    mbarrier.arrive(pipe.k_empty.index(count % STAGES), count=1)
    numbers = nothing(sight, gl.SliceLayout(1, SCORES))
    p, _, numbers = fold(s, last * KEYS, numbers, unit, i, work, KEYS, SCORES, True)
    weights = gl.convert_layout(p.to(q.dtype), gl.DotOperandLayout(0, VALUES, 2))
    context = gl.zeros([64, D], gl.float32, layout=VALUES)
    if sight.most is not None or sight.low is not None:
        for step in range(1, right):
            weights, context, numbers = _step(
                (last - step) * KEYS, count + step, weights, context, numbers, q, pipe, work, unit,
                i, D, KEYS, STAGES, SCORES, VALUES, OUTPUT, True,
            )  # fmt: skip
    for step in range(right, left):
        weights, context, numbers = _step(
            (last - step) * KEYS, count + step, weights, context, numbers, q, pipe, work, unit,
            i, D, KEYS, STAGES, SCORES, VALUES, OUTPUT, False,
        )  # fmt: skip
    if sight.least is not None or sight.low is not None:
        for step in range(left, tiles):
            weights, context, numbers = _step(
                (last - step) * KEYS, count + step, weights, context, numbers, q, pipe, work, unit,
                i, D, KEYS, STAGES, SCORES, VALUES, OUTPUT, True,
            )  # fmt: skip
    mbarrier.arrive(pipe.q_empty, count=1)

    count += tiles
    if OUTPUT:
        product = _product(weights, context, pipe, count - 1, KEYS, D, STAGES)
        context = warpgroup_mma_wait(0, deps=(product,))
        mbarrier.arrive(pipe.v_empty.index((count - 1) % STAGES), count=1)
    share = finish(numbers, work, unit, i)
    if OUTPUT:
        context = context * gl.convert_layout(share, gl.SliceLayout(1, VALUES))[:, None]
        i = first + group * 64 + gl.arange(0, 64, layout=gl.SliceLayout(1, VALUES))
        c = gl.arange(0, D, layout=gl.SliceLayout(0, VALUES))
        at = (unit.to(gl.int64) * sight.queries + i)[:, None] * D + c[None, :]
        inside = (i < sight.queries)[:, None]
        gl.store(work.asked.output + at, context.to(q.dtype), mask=inside)
    return count


@gluon.jit
def _consume(group, pipe, work, D: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
             OUTPUT: gl.constexpr):  # fmt: skip
    """Half of the rows of every turn."""
    count = 0
    for turn in range(turns_of(work.plan)):
        count = _rows(group, count, turn, pipe, work, D, KEYS, STAGES, OUTPUT)


@gluon.jit
def _source(tensor, batch, heads, tokens, strides, ROWS: gl.constexpr, D: gl.constexpr,
            TILE: gl.constexpr):  # fmt: skip
    """(B, H, N, D) for the copy engine, ROWS tokens at a time; zeros outside."""
    return tma.make_tensor_descriptor(
        tensor, [batch, heads, tokens, D], [strides[0], strides[1], strides[2], 1],
        [1, 1, ROWS, D], TILE,
    )  # fmt: skip


@gluon.jit
def _barriers(MANY: gl.constexpr, ARRIVALS: gl.constexpr):
    """Each complete after so many arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [MANY, 1], mbarrier.MBarrierLayout())
    for one in gl.static_range(MANY):
        mbarrier.init(made.index(one), count=ARRIVALS)
    return made


@gluon.jit(do_not_specialize=SIZES)
def attention(
    Q, K, V, asked, state, given, low, high, ranges, sink, scale,
    batch, heads, group, queries, keys, position, least, most, span_stride, range_stride,
    items, blocks, base, tall, crowd,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,
    D: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, OUTPUT: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """Blocks of 128 rows, in turns: `items` of them."""
    TYPE: gl.constexpr = Q.dtype.element_ty
    ROWS_OF_Q: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, 64, D], TYPE)
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, KEYS, D], TYPE)
    sight = Sight(heads, group, queries, keys, position, scale, least, most, low, high, span_stride,
                  ranges, range_stride, sink)  # fmt: skip
    work = Work(sight, Schedule(items, blocks, base, tall, crowd), asked, state, given)

    q_source = _source(Q, batch, heads, queries, (q_batch, q_head, q_token), 64, D, ROWS_OF_Q)
    k_source = _source(K, batch, heads // group, keys, (k_batch, k_head, k_token), KEYS, D, TILE)
    v_source = k_source
    q = gl.allocate_shared_memory(TYPE, [2, 1, 1, 64, D], ROWS_OF_Q)
    k = gl.allocate_shared_memory(TYPE, [STAGES, 1, 1, KEYS, D], TILE)
    v = k
    if OUTPUT:
        strides = (v_batch, v_head, v_token)
        v_source = _source(V, batch, heads // group, keys, strides, KEYS, D, TILE)
        v = gl.allocate_shared_memory(TYPE, [STAGES, 1, 1, KEYS, D], TILE)
    pipe = Pipe(
        q, k, v, _barriers(1, 1).index(0), _barriers(1, 2).index(0), _barriers(STAGES, 1),
        _barriers(STAGES, 2), _barriers(STAGES, 1), _barriers(STAGES, 2),
    )  # fmt: skip
    gl.warp_specialize([
        (_consume, (0, pipe, work, D, KEYS, STAGES, OUTPUT)),
        (_consume, (1, pipe, work, D, KEYS, STAGES, OUTPUT)),
        (_produce, ((q_source, k_source, v_source), pipe, work, D, KEYS, STAGES, OUTPUT)),
    ], [4, 1], REGISTERS)  # fmt: skip
