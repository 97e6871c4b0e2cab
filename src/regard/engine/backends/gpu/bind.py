"""A call as the kernels want it: flat tensors with strides, and one rule for its scores."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.engine.backends.gpu.seen import KeySpan, seen_by
from regard.engine.backends.gpu.spelt import Spelt
from regard.engine.call import Call
from regard.score import ALiBi, Bias, BiasTable, PartBias, RelativeBias

_FAST_SCALES = (2.0**-20, 1.0)  # within them, hidden scores stay finite after scaling


def reads_bias(bias: Bias | None) -> bool:
    """Whether the kernels read such a bias; every other is added tile by tile elsewhere."""
    inner = bias.bias if isinstance(bias, PartBias) else bias
    return inner is None or isinstance(inner, BiasTable | ALiBi | RelativeBias)


class MaskSquares(NamedTuple):
    """A mask in squares of 128 × 128, see `spelt`."""

    squares: Tensor  # (B, Hq, R, C)
    by_query: Tensor  # (B, Hq, R, 1 + C)
    by_key: Tensor  # (B, Hq, C, 1 + R)
    bits: Tensor


class ScoreOperands(NamedTuple):
    """What becomes of a product q·k, in tensors and numbers; None where nothing is asked.

    Kernels take it as one argument: what is None is compiled away.
    """

    heads: int
    group: int
    queries: int
    keys: int
    position: int  # query i stands at key i + position …
    places: Tensor | None  # (L,): … or at the key named here
    key_rows: Tensor | None  # (S,) int64: where each key begins in a cache, which K is then
    scale: Any  # a number; a tensor of one, where that is float64
    softcap: Any
    least: int | None  # least ≤ j − i ≤ most
    most: int | None
    low: Tensor | None  # (B or 1, L): low ≤ j < high
    high: Tensor | None
    low_2: Tensor | None  # or low_2 ≤ j < high_2
    high_2: Tensor | None
    span_stride: int
    first_query: Tensor | None  # (B or 1, S): of the queries that see a key; see `query_bounds`
    behind_query: Tensor | None
    seen_stride: int
    query_ids: Tensor | None
    key_ids: Tensor | None
    query_id_stride: int
    key_id_stride: int
    flags: Tensor | None
    flag_stride: int
    table: Tensor | None
    table_strides: tuple[int, ...]
    spelt: MaskSquares | None
    # of batch, head and line of the first three. Not among them: Triton 3.6 loses numbers that are
    # 1 in a tuple in a tuple in a tuple
    spelt_strides: tuple[int, ...]
    bias: Tensor | None
    bias_strides: tuple[int, ...]
    slopes: Tensor | None
    by_distance: Tensor | None  # (Hq, 2·reach + 1)
    bias_shift: int
    reach: int
    sink: Tensor | None


class Bound(NamedTuple):
    """The tensors (B, H, N, D), the rule, and what is known of it before any kernel runs."""

    query: Tensor
    key: Tensor
    value: Tensor
    rule: ScoreOperands
    batch: tuple[int, ...]
    exact: torch.dtype
    fast: bool  # the final score is scale·q·k
    plain: bool  # whole tiles can be known to be visible

    @property
    def units(self) -> int:
        """Batch entries × query heads."""
        return self.query.shape[0] * self.query.shape[1]

    def new(self, *tail: int, dtype: torch.dtype | None = None) -> Tensor:
        """(B, Hq, *tail), unwritten."""
        size = (*self.query.shape[:2], *tail)
        return torch.empty(size, dtype=dtype or self.exact, device=self.query.device)

    def batched(self, tensor: Tensor) -> Tensor:
        """(B, …) → (*batch, …)."""
        if len(self.batch) == 1:  # a view takes as long as a question
            return tensor
        return tensor.reshape(*self.batch, *tensor.shape[1:])


def bind(call: Call) -> Bound:
    """Flatten the batch, the mask and the bias."""
    if call.slots is not None and call.key.stride(-1) != 1:
        call = call.read()  # kernels fetch a key's numbers side by side
    rule = _remembered_rule(call)
    fast = rule.softcap is None and call.score.bias is None
    fast = fast and _FAST_SCALES[0] <= call.score.scale <= _FAST_SCALES[1]
    hidden = (rule.low_2, rule.query_ids, rule.flags, rule.table, rule.spelt, rule.bias)
    plain = all(part is None for part in hidden)
    query, value = flat(call.query), flat(call.value)
    if call.slots is None:
        key = flat(call.key)
    else:
        key, rows = _in_cache(call.key.detach(), call.slots)
        rule = rule._replace(key_rows=rows)
    return Bound(query, key, value, rule, call.shape.batch, call.exact, fast, plain)


_RULES: dict[Any, ScoreOperands] = {}
_MANY_RULES = 1024


def _remembered_rule(call: Call) -> ScoreOperands:
    """Once for all calls whose rule is numbers alone; one with tensors is made every time."""
    shape, score = call.shape, call.score
    bare = score.bias is None and score.sink is None and call.exact != torch.float64
    if not bare or not (call.mask is None or call.mask.is_flat):
        return _rule(call)
    name = (shape.extent, shape.group, call.mask, score.scale, score.softcap, call.place)
    rule = _RULES.get(name)
    if rule is None:
        rule = _rule(call)
        if len(_RULES) >= _MANY_RULES:
            _RULES.clear()  # others may do so at any time too
        if rule.spelt is None:  # a mask of the caller's own may be flat and still need tensors
            _RULES[name] = rule
    return rule


def flat(tensor: Tensor) -> Tensor:
    """(*batch, H, N, D) → (B, H, N, D), the last axis contiguous."""
    made = tensor.detach() if tensor.requires_grad else tensor
    if made.ndim != 4:
        made = made.reshape(prod(made.shape[:-3]), *made.shape[-3:])
    return made if made.stride(-1) == 1 or made.shape[-1] <= 1 else made.contiguous()


def _rule(call: Call) -> ScoreOperands:
    shape, score = call.shape, call.score
    seen = seen_by(call.mask, shape.extent, call.query.device)
    low, high, low_2, high_2 = (*_sides(seen.spans, call), *[None] * 4)[:4]
    query_ids, key_ids, flags = (_rows(t, call) for t in (seen.query_ids, seen.key_ids, seen.flags))
    table = None if seen.table is None else _spread(seen.table, call)
    bias, slopes, by_distance, shift, reach = _bias(call)
    spelt = None if seen.spelt is None else _squares(seen.spelt, call)
    return ScoreOperands(
        heads=shape.query_heads, group=shape.group, queries=shape.queries, keys=shape.keys,
        position=call.place_of_first, places=_places(call), key_rows=None,
        scale=_number(score.scale, call),
        softcap=_number(score.softcap, call), least=seen.least, most=seen.most, low=low, high=high,
        low_2=low_2, high_2=high_2, span_stride=_stride(low),
        first_query=None, behind_query=None, seen_stride=0, query_ids=query_ids, key_ids=key_ids,
        query_id_stride=_stride(query_ids), key_id_stride=_stride(key_ids), flags=flags,
        flag_stride=_stride(flags), table=table, table_strides=_strides(table),
        spelt=spelt, spelt_strides=() if spelt is None else _line_strides(spelt), bias=bias,
        bias_strides=_strides(bias), slopes=slopes, by_distance=by_distance, bias_shift=shift,
        reach=reach, sink=None if score.sink is None else _array(score.sink, call),
    )  # fmt: skip


def _in_cache(cache: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """(1, Hkv, S, D) over a cache (blocks, Hkv, size, D), whose tokens stand still: where each
    begins is told beside it."""
    block, head, place, _ = cache.stride()
    _, heads, size, dim = cache.shape
    rows = (slots // size * block + slots % size * place).contiguous()
    strides = (0, head, 0, 1)
    return cache.as_strided((1, heads, slots.shape[0], dim), strides, cache.storage_offset()), rows


def _places(call: Call) -> Tensor | None:
    """(L,) int32: where queries stand, where the mask says so."""
    shifts = call.position
    if not isinstance(shifts, Tensor):
        return None
    return (shifts + torch.arange(shifts.shape[0], device=shifts.device)).to(torch.int32)


def query_bounds(rule: ScoreOperands) -> ScoreOperands:
    """The rule with the first query whose interval reaches beyond each key, and the one behind the
    last whose interval begins at it or before: sweeps over queries walk between the two. Found
    without waiting: whatever the order of the intervals, the farthest end so far only grows, and so
    does the least beginning from here on."""
    if rule.low is None or rule.high is None or 0 in (rule.queries, rule.keys):
        return rule
    low, high = rule.low.where(rule.low < rule.high, rule.keys), rule.high
    if rule.low_2 is not None and rule.high_2 is not None:
        low = torch.minimum(low, rule.low_2.where(rule.low_2 < rule.high_2, rule.keys))
        high = torch.maximum(high, rule.high_2)
    reached = high.where(low < rule.keys, 0).cummax(-1).values
    begun = low.flip(-1).cummin(-1).values.flip(-1).contiguous()
    j = torch.arange(rule.keys, dtype=torch.int32, device=low.device).expand(low.shape[0], -1)
    first, behind = (
        torch.searchsorted(side, j.contiguous(), right=True, out_int32=True)
        for side in (reached, begun)
    )
    return rule._replace(first_query=first, behind_query=behind, seen_stride=_stride(first))


def _number(value: float | None, call: Call) -> Any:
    """A number as kernels take it; those of Triton are single, so doubles travel in memory."""
    if value is None:
        return None
    if call.exact != torch.float64:
        return float(value)  # kernels are compiled by its type: 1 is none of 1.0
    return torch.full((1,), value, dtype=torch.float64, device=call.query.device)


def _array(tensor: Tensor, call: Call) -> Tensor:
    return tensor.detach().to(call.exact).contiguous()


def _sides(spans: tuple[KeySpan, ...], call: Call) -> list[Tensor]:
    """Both sides of every interval, inside the keys: (B, L) int32 each as soon as any of them is
    told per batch entry, else (1, L), so that one stride is that of all."""
    shape, device = call.shape, call.query.device
    start = torch.zeros((), dtype=torch.int64, device=device)
    open_ends = start, start + shape.keys
    sides = [
        (end if side is None else side.to(device)).clamp(0, shape.keys).to(torch.int32)
        for span in spans
        for side, end in zip(span, open_ends, strict=True)
    ]
    many = any(side.ndim > 1 for side in sides)
    full = (*(shape.batch if many else ()), shape.queries)
    return [
        side.expand(full).reshape(prod(full[:-1]), shape.queries).contiguous() for side in sides
    ]


def _rows(tensor: Tensor | None, call: Call) -> Tensor | None:
    """(…, N) → (B or 1, N), contiguous."""
    if tensor is None:
        return None
    full = (*(call.shape.batch if tensor.ndim > 1 else ()), tensor.shape[-1])
    made = tensor.expand(full).reshape(prod(full[:-1]), tensor.shape[-1]).contiguous()
    return _readable(made, call)


def _spread(table: Tensor, call: Call) -> Tensor:
    """(B, Hq, L, S) without a copy wherever strides can say it."""
    full = call.shape.extent.full
    made = _readable(table.detach(), call)
    return made.expand(full).reshape(prod(full[:-3]), *full[-3:])


def _squares(spelt: Spelt, call: Call) -> MaskSquares:
    """Spread over all heads; in double precision bits are read by words, see `_readable`."""
    *batch, heads = call.shape.extent.full[:-2]
    squares, by_query, by_key = (
        part.expand(*batch, heads, *part.shape[-2:]).reshape(prod(batch), heads, *part.shape[-2:])
        for part in (spelt.squares, spelt.by_query, spelt.by_key)
    )
    bits = spelt.bits.view(torch.int32) if call.exact == torch.float64 else spelt.bits
    return MaskSquares(squares, by_query, by_key, bits)


def _line_strides(spelt: MaskSquares) -> tuple[int, ...]:
    return tuple(n for part in spelt[:3] for n in part.stride()[:3])


def _readable(tensor: Tensor, call: Call) -> Tensor:
    """As kernels read it. Triton 3.6 lays out products of doubles by the narrowest load before
    them and then has no code for less than 32 bits."""
    if call.exact == torch.float64 and tensor.element_size() < 4:
        return tensor.to(torch.float32 if tensor.is_floating_point() else torch.int32)
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _bias(call: Call) -> tuple[Tensor | None, Tensor | None, Tensor | None, int, int]:
    """Table, slopes, numbers by distance; where query 0 stands; how far distances go."""
    bias, extent = call.score.bias, call.shape.extent
    down = across = 0
    whole = extent
    if isinstance(bias, PartBias):
        down, across, whole = bias.query_start, bias.key_start, bias.within(extent)
        bias = bias.bias
    if isinstance(bias, BiasTable):
        table = bias.table
        if table.shape[-2] > 1:
            table = table[..., down : down + extent.queries, :]
        if table.shape[-1] > 1:
            table = table[..., across : across + extent.keys]
        return _spread(table, call), None, None, 0, 0
    shift = down - across
    if isinstance(bias, ALiBi):
        return None, _array(bias.slopes, call), None, shift + whole.shift(bias.align), 0
    if isinstance(bias, RelativeBias):
        near = torch.as_tensor(bias.buckets(), device=call.query.device)
        numbers = _array(bias.table, call)[near].T.contiguous()
        return None, None, numbers, shift + whole.shift(bias.align), bias.max_distance
    return None, None, None, 0, 0


def _stride(tensor: Tensor | None) -> int:
    """From one batch entry to the next; 0 where all share one."""
    return 0 if tensor is None or tensor.shape[0] == 1 else tensor.stride(0)


def _strides(tensor: Tensor | None) -> tuple[int, ...]:
    return (0, 0, 0, 0) if tensor is None else tensor.stride()
