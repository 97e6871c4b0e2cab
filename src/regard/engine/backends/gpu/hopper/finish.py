# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
"""A row's numbers once its last key has passed: the sink joins, state and statistics are written.

The same steps as at the end of ../forward.py, in single precision.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from regard.engine.backends.gpu.hopper.fold import LOG2E, limits, whole
from regard.engine.backends.gpu.tile import LOWEST

_LN2 = gl.constexpr(0.6931471805599453)
_NONE = gl.constexpr(float("-inf"))


@gluon.jit
def _with_sink(numbers, largest, sink, bad, none):
    """One more key, whose value is zero: (m, total, centred, largest, shrink)."""
    top, m, total, centred = numbers
    level = gl.maximum(gl.where(none, sink, top), sink)
    gone = level == _NONE  # nothing seen, and a sink that weighs nothing
    base = gl.where(gone, 0.0, level * LOG2E)
    delta = gl.where(none, 0.0, m - base)
    shrink = gl.where(none, 0.0, gl.exp2(delta))
    extra = gl.exp2(sink * LOG2E - base)
    gap = gl.where(extra > 0, sink * LOG2E - base, 0.0)
    centred = shrink * (centred + delta * total) + extra * gap
    total = shrink * total + extra
    largest = gl.where(gone | bad, largest, level)
    return base, total, centred, largest, shrink


@gluon.jit
def finish(numbers, work, unit, i):
    """Writes them; returns what the output is to be multiplied with."""
    sight, _, asked, state, given = work
    top, m, parts, centred_parts, squares, away = numbers
    ROWS: gl.constexpr = top.type.layout
    # from the reference to the true maximum
    height = (top * sight.scale) * LOG2E
    delta = m - height
    settling = gl.exp2(delta)
    total = whole(parts, ROWS)
    centred = settling * (whole(centred_parts, ROWS) + delta * total)
    total = settling * total
    m = height
    at = unit.to(gl.int64) * sight.queries + i
    inside = i < sight.queries
    bad = total != total
    none = total == 0
    top = top * sight.scale
    largest = gl.where(none, _NONE, gl.where(bad, total, top))
    if asked.logit is not None:
        gl.store(asked.logit + at, largest, mask=inside)
    if asked.raw is not None:
        gl.store(asked.raw + at, largest, mask=inside)
    shrink = settling
    if sight.sink is not None:
        sink = gl.zeros_like(total) + gl.load(sight.sink + unit % sight.heads)
        m, total, centred, largest, joining = _with_sink(
            (top, m, total, centred), largest, sink, bad, none
        )
        shrink = shrink * joining
    empty = total == 0
    divisor = gl.where(empty, 1.0, total)
    log = gl.where(empty, 0.0, gl.log2(divisor))
    natural = log * _LN2
    gl.store(state[0] + at, largest, mask=inside)
    gl.store(state[1] + at, natural, mask=inside)
    if asked.entropy is not None:
        entropy = (log - centred / divisor) * _LN2
        gl.store(asked.entropy + at, gl.where(empty, 0.0, entropy), mask=inside)
    share = gl.where(empty, 0.0, shrink / divisor)
    if given[0] is not None:
        to = gl.load(given[0] + at, mask=inside, other=0.0)
        to_log = gl.load(given[1] + at, mask=inside, other=0.0)
        other = gl.exp2((m - gl.maximum(to, LOWEST) * LOG2E) - to_log * LOG2E)
        other = gl.where((to == _NONE) | none, 0.0, other) * shrink
        # a total is known better than its logarithm, and its own it knows
        share = gl.where((to == largest) & (to_log == natural), share, other)
    if asked.squares is not None:
        gl.store(asked.squares + at, whole(squares, ROWS) * share * share, mask=inside)
    if asked.away is not None:
        gl.store(asked.away + at, whole(away, ROWS) * share, mask=inside)
    if asked.visible is not None:
        low, high = limits(sight, unit // sight.heads, i)
        gl.store(asked.visible + at, gl.maximum(high - low, 0), mask=inside)
    return share
