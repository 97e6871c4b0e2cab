"""One call of attention, laid out: whose rows and keys it holds, and what to measure in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.api import replay
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import unheard
from regard.mask import Extent, Mask
from regard.mask.base import Part
from regard.recorder.host import bring
from regard.recorder.layer_writer import SliceNumbers
from regard.recorder.measure import CallMeasures, Measured, matched, measured
from regard.recorder.padding import without_padding
from regard.recorder.plan import Plan
from regard.recorder.reduce import in_bins, totals
from regard.recorder.rules import Rules, as_heads, follows, rules_for
from regard.score import PartBias, ScoreRule

_Array = NDArray[Any]


@dataclass(frozen=True)
class CallSlice:
    """One prompt's part of a call: batch entries first … first + count − 1, and of each the rows
    and keys that are real tokens."""

    first: int
    count: int  # more than one where a module looks at several windows: they become heads
    rows: range  # in the call
    keys: range
    row_start: int  # of rows[0] in the prompt
    key_start: int  # of keys[0]
    known_keys: int  # keys of the prompt that earlier calls have shown
    kept: range  # those of `rows` that are recorded
    begins: bool  # the first of them begins a bin
    heads: tuple[int, ...]  # recorded, of count × heads
    kind: Literal["self", "cross"]
    exact: bool
    whole: bool  # every real row is recorded, and no other row saw anything


@dataclass(frozen=True)
class Coming:
    """A page whose numbers are on their way to the host."""

    rows: int
    arrived: Callable[[], SliceNumbers]  # waits for them


def read_pages(
    attention: Attention,
    output: Tensor,
    value: Tensor,
    wanted: CallMeasures,
    shares: list[CallSlice],
    plan: Plan,
) -> list[Coming]:
    """What to write down for each prompt. Nothing of the attention itself is held."""
    call = attention._call
    pages: list[Coming] = []
    everything: Measured | None = None
    with unheard(), torch.no_grad():
        for share in shares:
            if not share.kept:
                pages.append(_keys_alone(call, value, share))
            elif share.whole:
                if everything is None:
                    everything = measured(attention, wanted, output, value)
                pages.append(_page(attention, everything, share, plan, 0))
            else:
                part, numbers = _part(attention, output, value, wanted, share)
                alone = replace(share, first=0, count=1)
                pages.append(_page(part, numbers, alone, plan, share.kept.start))
    return pages


def _part(
    attention: Attention, output: Tensor, value: Tensor, wanted: CallMeasures, share: CallSlice
) -> tuple[Attention, Measured]:
    """The recorded rows alone, in numbers."""
    part = _narrowed(attention._call, share)
    rows = slice(share.kept.start, share.kept.stop)
    entries = slice(share.first, share.first + share.count)
    outputs, values = (_flat(t)[entries].flatten(0, 1) for t in (output, value))
    plain = replace(wanted, cell=0, duplicate=None, prefix=None)
    numbers = measured(part, plain, outputs[:, rows], values)
    # which key is earlier is known to all the rows together
    for name, found in matched(attention, wanted).items():
        numbers.rows[name] = found[entries, :, rows]
    return part, numbers


def _keys_alone(call: Call, value: Tensor, share: CallSlice) -> Coming:
    """No row of a call is recorded, but rows that are may look at its keys."""
    entries = slice(share.first, share.first + share.count)
    fresh = _fresh(share)
    norm = _flat(value)[entries, :, fresh].float().norm(dim=-1).flatten(0, 1)
    words = _words(call.key, entries, fresh, None) if share.exact else None
    coming = bring({"value_norm": norm} | ({} if words is None else {"k": words[0]}))
    kind = None if words is None else words[1]
    heads = len(share.heads)
    none = np.zeros((heads, 0), np.float32)

    def arrived() -> SliceNumbers:
        found = coming()
        return SliceNumbers(
            0, {}, {}, {}, none, none, 0, none[:, :, None],
            found["value_norm"], None, (found["k"], kind) if "k" in found else None,
            share.row_start, share.key_start, fresh.stop - fresh.start, Rules("null", "", ()),
            False, False,
        )  # fmt: skip

    return Coming(0, arrived)


def _fresh(share: CallSlice) -> slice:
    """The keys of a call that earlier calls have not shown."""
    new = min(share.key_start + len(share.keys) - share.known_keys, len(share.keys))
    return slice(share.keys.stop - max(new, 0), share.keys.stop)


def _flat(tensor: Tensor) -> Tensor:
    """(*batch, H, N, D) → (E, H, N, D); what has no heads gets one."""
    wide = tensor.unsqueeze(0) if tensor.ndim == 2 else tensor
    return wide.reshape(-1, *wide.shape[-3:])


def _narrowed(call: Call, share: CallSlice) -> Attention:
    """The attention of the recorded rows alone, windows as heads."""
    entries = slice(share.first, share.first + share.count)
    rows = slice(share.kept.start, share.kept.stop)
    place = (share.kept.start, 0, call.shape.queries, call.shape.keys)
    mask, score = _alone(call, share)
    mask = None if mask is None else Part(mask, *place)
    bias = None if score.bias is None else PartBias(score.bias, *place)
    query, key = (_flat(t)[entries].flatten(0, 1) for t in (call.query, call.key))
    return replay(
        query[:, rows], key, mask=mask, bias=bias, scale=score.scale, softcap=score.softcap,
        sink=score.sink,
    )  # fmt: skip


def _alone(call: Call, share: CallSlice) -> tuple[Mask | None, ScoreRule]:
    """The rules of one prompt's entry, or of its windows as heads."""
    if share.count == 1:
        entry = entry_of(call, share.first)
        return None if call.mask is None else call.mask.select(entry), call.score.select(entry)
    entries = range(share.first, share.first + share.count)
    return as_heads(call.mask, call.score, call.shape.extent, [entry_of(call, n) for n in entries])


def entry_of(call: Call, number: int) -> tuple[int, ...]:
    """Where a batch entry stands among the batch's axes."""
    batch = call.shape.batch
    return tuple(int(n) for n in np.unravel_index(number, batch)) if batch else ()


def _page(
    attention: Attention, numbers: Measured, share: CallSlice, plan: Plan, down: int
) -> Coming:
    """`down` is the call's row that stands first in `numbers`."""
    call = attention._call
    rows = slice(share.kept.start - down, share.kept.stop - down)
    per_head, per_row = _picker(numbers, share), _picker(numbers, share, rows)
    keys = slice(share.keys.start, share.keys.stop)
    row_start = share.row_start + (share.kept.start - share.rows.start)
    queries = numbers.normalized.shape[-1]
    shift = row_start - rows.start - share.key_start + keys.start + queries - 1
    fresh = _fresh(share)
    kept = {name: per_row(value) for name, value in numbers.rows.items()}
    kept["first"] = per_row(_first(attention, numbers, share))
    even, seen = per_row(numbers.normalized), _seen(numbers, share)[:, rows]
    mass, summed = _pooled(attention, numbers, share, plan.pool_cell, rows, row_start)
    words = _all_words(call, share, rows, fresh)
    names, sums = totals(kept, even, seen)
    fields = {
        "totals": sums,
        "received": per_head(numbers.received)[:, keys],
        "offsets": per_head(numbers.offsets),
        "pooled": mass,
        "value_norm": numbers.value_norm[_entries(share)].flatten(0, 1)[:, fresh],
    }
    kept["top_weights"] = per_row(numbers.top_weights)
    kept["top_keys"] = _moved(per_row(numbers.top_keys), share.key_start - keys.start)
    if plan.row_bin > 1 and not share.exact:
        del kept["lse"]  # of use with q and k only, and large
    bins, loose = map(bring, in_bins(kept, plan, share.begins))
    others = bring(fields | {name: tensor for name, (tensor, _) in words.items()})
    kinds = {name: kind for name, (_, kind) in words.items()}
    rules, joins, step = _rules(call, share, down)

    def arrived() -> SliceNumbers:  # holds no tensor of a GPU
        found = others()
        return SliceNumbers(
            count=len(share.kept),
            bins=bins(),
            rows=loose(),
            totals=dict(zip(names, found["totals"].T, strict=True)),
            received=found["received"],
            offsets=found["offsets"],
            offset_shift=shift,
            pooled=summed(found["pooled"]),
            value_norm=found["value_norm"],
            query=(found["query"], kinds["query"]) if kinds else None,
            key=(found["key"], kinds["key"]) if kinds else None,
            row_start=row_start,
            key_start=share.key_start,
            new_keys=fresh.stop - fresh.start,
            rules=rules,
            joins=joins,
            causal_step=step,
        )

    return Coming(len(share.kept), arrived)


def _entries(share: CallSlice) -> slice:
    return slice(share.first, share.first + share.count)


def _picker(
    numbers: Measured, share: CallSlice, rows: slice | None = None
) -> Callable[[Tensor], Tensor]:
    """(E, H, …) → recorded heads of this prompt; of (E, H, L, …) these rows where given."""
    entries, total, queries = numbers.normalized.shape
    heads = None if share.heads == tuple(range(share.count * total)) else list(share.heads)
    some = None if rows == slice(0, queries) else rows

    # as few calls as can be: for a single row they cost more than what they do
    def pick(tensor: Tensor) -> Tensor:
        every = tensor[0] if entries == 1 else tensor[_entries(share)].flatten(0, 1)
        every = every if heads is None else every[heads]
        return every if some is None else every[:, some]

    return pick


def _first(attention: Attention, numbers: Measured, share: CallSlice) -> Tensor:
    """(E, H, L): the weight of the prompt's first key in every row; 0 where it is gone from a
    sliding cache."""
    if share.key_start > 0 or not len(share.keys):
        return torch.zeros_like(numbers.normalized)
    if numbers.normalized.shape[-1] == 1:  # what the keys received is the row itself
        return numbers.received[..., share.keys.start, None]
    return attention[..., share.keys.start].float().reshape(numbers.normalized.shape)


def _seen(numbers: Measured, share: CallSlice) -> Tensor:
    """(H or 1, L): how many keys the rows of this prompt may see."""
    visible = numbers.visible
    if share.count == 1 and visible.shape[1] == 1:
        return visible[share.first if len(visible) > 1 else 0]
    return _picker(numbers, share)(visible.expand_as(numbers.normalized))


def _moved(keys: Tensor, ahead: int) -> Tensor:
    """Keys of the call as keys of the prompt; −1 is none."""
    # nearly never, and a pass over the largest array there is
    return torch.where(keys < 0, -1, keys + ahead) if ahead else keys


def _all_words(
    call: Call, share: CallSlice, rows: slice, fresh: slice
) -> dict[str, tuple[Tensor, str | None]]:
    """q of the recorded rows and heads, k of the new keys, where they are kept."""
    if not share.exact:
        return {}
    entries = _entries(share)
    return {
        "query": _words(call.query, entries, rows, list(share.heads)),
        "key": _words(call.key, entries, fresh, None),
    }


def _words(
    tensor: Tensor, entries: slice, tokens: slice, heads: list[int] | None
) -> tuple[Tensor, str | None]:
    """(heads, tokens, D), bf16 as its 16-bit words."""
    flat = _flat(tensor)[entries, :, tokens].flatten(0, 1).detach()
    every = heads is None or heads == list(range(len(flat)))
    plain = (flat if every else flat[heads]).contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.uint16), "BF16"
    return plain, None


@dataclass(frozen=True)
class _CellSums:
    """Sums of what lies in one cell: those that begin at `starts` of an axis, or all are made."""

    starts: _Array | None = None
    axis: int = 0

    def __call__(self, mass: _Array) -> _Array:
        return mass if self.starts is None else np.add.reduceat(mass, self.starts, axis=self.axis)


def _pooled(
    attention: Attention,
    numbers: Measured,
    share: CallSlice,
    cell: int,
    rows: slice,
    row_start: int,
) -> tuple[Tensor, _CellSums]:
    """(H, R, C): mass in cells that are counted from the prompt's first row and key, or in parts
    of such, and how they become whole on the host."""
    per_head = _picker(numbers, share)
    if numbers.pooled is not None:
        tall, wide = -(-len(share.rows) // cell), -(-len(share.keys) // cell)
        return per_head(numbers.pooled)[:, :tall, :wide], _CellSums()
    keys = slice(share.keys.start, share.keys.stop)
    if attention._call.shape.queries == 1 and len(share.keys):
        received = per_head(numbers.received)[:, None, keys]
        return received, _CellSums(_starts(share.key_start, len(share.keys), cell), 2)
    columns = (np.arange(len(share.keys)) + share.key_start) // cell - share.key_start // cell
    indicator = np.zeros((attention.shape[-1], columns[-1] + 1 if len(columns) else 0))
    indicator[np.arange(keys.start, keys.stop), columns] = 1
    mass = attention @ torch.as_tensor(indicator, dtype=attention.dtype, device=attention.device)
    by_row = mass.reshape(-1, attention._call.shape.query_heads, *mass.shape[-2:])
    picked = _picker(numbers, share, rows)(by_row.float())
    return picked, _CellSums(_starts(row_start, len(share.kept), cell), 1)


def _starts(first: int, count: int, cell: int) -> _Array:
    """Where cells begin among so many tokens, at least one, from the `first` on."""
    return np.append(0, np.arange(cell - first % cell, count, cell))


def _rules(call: Call, share: CallSlice, down: int) -> tuple[Rules, bool, bool]:
    """The rules of the rows that are recorded, and whether they go on where others stopped."""
    whole = (call.shape.queries, call.shape.keys)
    rows = range(share.kept.start - down, share.kept.stop - down)
    cut = (len(rows), len(share.keys)) != whole
    mask, score = _alone(call, share)
    mask = without_padding(mask, rows, share.keys)
    joins = follows(mask, len(rows)) and share.kind == "self"
    same_end = whole[0] - rows.stop == whole[1] - share.keys.stop
    place = (rows.start, share.keys.start, *whole)
    if cut and not (joins and same_end) and mask is not None:
        mask = Part(mask, *place)
    if cut and score.bias is not None:
        score = replace(score, bias=PartBias(score.bias, *place))
    heads = call.shape.query_heads * share.count
    found = rules_for(mask, score, Extent(len(rows), len(share.keys), (), heads))
    step = (
        mask is None
        and len(rows) == 1
        and share.kind == "self"
        and share.key_start == 0
        and len(share.keys) == share.row_start + (rows.start - (share.rows.start - down)) + 1
    )
    return found, joins and (not cut or same_end), step
