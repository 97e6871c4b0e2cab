"""One call of attention, laid out: whose rows and keys it holds, and what to measure in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.api import replay
from regard.engine.listen import unheard
from regard.engine.matrix import Attention
from regard.engine.problem import Call
from regard.mask import Extent, Mask
from regard.mask.part import Part
from regard.recorder.host import on_host
from regard.recorder.ledger import Page
from regard.recorder.measure import Measured, Wanted, matched, measured
from regard.recorder.padding import without_padding
from regard.recorder.rules import Rules, as_heads, follows, rules_for
from regard.score import PartBias, ScoreRule

__all__ = ["Share", "entry_of", "read_pages"]

_Array = NDArray[Any]


@dataclass(frozen=True)
class Share:
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
    heads: tuple[int, ...]  # recorded, of count × heads
    kind: Literal["self", "cross"]
    exact: bool
    whole: bool  # every real row is recorded, and no other row saw anything


def read_pages(
    attention: Attention,
    output: Tensor,
    value: Tensor,
    wanted: Wanted,
    shares: list[Share],
    cell: int,
) -> list[Page]:
    """What to write down for each prompt."""
    call = attention._call
    pages: list[Page] = []
    everything: Measured | None = None
    with unheard(), torch.no_grad():
        for share in shares:
            if not share.kept:
                pages.append(_keys_alone(call, value, share))
            elif share.whole:
                if everything is None:
                    everything = measured(attention, wanted, output, value)
                pages.append(_page(attention, everything, wanted, share, cell, 0))
            else:
                part, numbers = _part(attention, output, value, wanted, share)
                alone = replace(share, first=0, count=1)
                pages.append(_page(part, numbers, wanted, alone, cell, share.kept.start))
    return pages


def _part(
    attention: Attention, output: Tensor, value: Tensor, wanted: Wanted, share: Share
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


def _keys_alone(call: Call, value: Tensor, share: Share) -> Page:
    """No row of a call is recorded, but rows that are may look at its keys."""
    entries = slice(share.first, share.first + share.count)
    fresh = _fresh(share)
    norm = _flat(value)[entries, :, fresh].float().norm(dim=-1).flatten(0, 1)
    none = np.zeros((len(share.heads), 0), np.float32)
    flat = none[:, :, None]
    return Page(
        {}, none, none, flat, flat, none, none, 0, flat, norm.cpu().numpy(), None,
        _words(call.key, entries, fresh, None) if share.exact else None,
        share.row_start, share.key_start, fresh.stop - fresh.start, Rules("None", "", ()), False,
        False,
    )  # fmt: skip


def _fresh(share: Share) -> slice:
    """The keys of a call that earlier calls have not shown."""
    new = min(share.key_start + len(share.keys) - share.known_keys, len(share.keys))
    return slice(share.keys.stop - max(new, 0), share.keys.stop)


def _flat(tensor: Tensor) -> Tensor:
    """(*batch, H, N, D) → (E, H, N, D); what has no heads gets one."""
    wide = tensor.unsqueeze(0) if tensor.ndim == 2 else tensor
    return wide.reshape(-1, *wide.shape[-3:])


def _narrowed(call: Call, share: Share) -> Attention:
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


def _alone(call: Call, share: Share) -> tuple[Mask | None, ScoreRule]:
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
    attention: Attention, numbers: Measured, wanted: Wanted, share: Share, cell: int, down: int
) -> Page:
    """`down` is the call's row that stands first in `numbers`."""
    call = attention._call
    entries = slice(share.first, share.first + share.count)
    heads = list(share.heads)
    rows = slice(share.kept.start - down, share.kept.stop - down)
    keys = slice(share.keys.start, share.keys.stop)

    def per_head(array: _Array) -> _Array:
        """(E, H, …) → recorded heads of this prompt."""
        every = array[entries].reshape(-1, *array.shape[2:])
        return every if heads == list(range(len(every))) else every[heads]

    row_start = share.row_start + (share.kept.start - share.rows.start)
    queries = numbers.normalized.shape[-1]
    shift = row_start - (rows.start) - share.key_start + keys.start + queries - 1
    seen = numbers.visible[entries if len(numbers.visible) > 1 else slice(0, 1)]
    seen = np.broadcast_to(seen, (share.count, call.shape.query_heads, queries))
    fresh = _fresh(share)
    top_keys = per_head(numbers.top_keys)[:, rows]
    ahead = share.key_start - keys.start
    if ahead:  # nearly never, and a pass over the largest array there is
        top_keys = np.where(top_keys < 0, -1, top_keys + ahead).astype(np.int32)
    rules, joins, step = _rules(call, share, down)
    return Page(
        rows={name: per_head(value)[:, rows] for name, value in numbers.rows.items()}
        | {"first": _first(attention, numbers, share)[heads][:, rows]},
        normalized=per_head(numbers.normalized)[:, rows],
        visible=seen.reshape(-1, queries)[heads][:, rows],
        top_weights=per_head(numbers.top_weights)[:, rows],
        top_keys=top_keys,
        received=per_head(numbers.received)[:, keys],
        offsets=per_head(numbers.offsets),
        offset_shift=shift,
        pooled=_pooled(attention, numbers, share, cell, rows, keys, row_start, per_head),
        value_norm=_key_heads(numbers.value_norm, entries)[:, fresh],
        query=_words(call.query, entries, rows, heads) if share.exact else None,
        key=_words(call.key, entries, fresh, None) if share.exact else None,
        row_start=row_start,
        key_start=share.key_start,
        new_keys=fresh.stop - fresh.start,
        rules=rules,
        joins=joins,
        causal_step=step,
    )


def _first(attention: Attention, numbers: Measured, share: Share) -> _Array:
    """(count × H, L): the weight of the prompt's first key in every row; 0 where it is gone from
    a sliding cache."""
    shape = attention._call.shape
    heads, queries = share.count * shape.query_heads, shape.queries
    if share.key_start > 0 or not len(share.keys):
        return np.zeros((heads, queries), np.float32)
    if queries == 1:  # what the keys received is the row itself
        column = numbers.received[..., share.keys.start]
    else:
        column = attention[..., share.keys.start].float().cpu().numpy()
    every = column.reshape(-1, shape.query_heads, queries)
    return every[share.first : share.first + share.count].reshape(heads, queries)


def _key_heads(array: _Array, entries: slice) -> _Array:
    """(E, K, S) → (count × K, S)."""
    return array[entries].reshape(-1, array.shape[-1])


def _words(
    tensor: Tensor, entries: slice, tokens: slice, heads: list[int] | None
) -> tuple[_Array, str | None]:
    """(heads, tokens, D) on the host, bf16 as its 16-bit words."""
    flat = _flat(tensor)[entries, :, tokens].flatten(0, 1)
    every = heads is None or heads == list(range(len(flat)))
    plain = on_host(flat if every else flat[heads]).contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.uint16).numpy(), "BF16"
    return plain.numpy(), None


def _pooled(
    attention: Attention,
    numbers: Measured,
    share: Share,
    cell: int,
    rows: slice,
    keys: slice,
    row_start: int,
    per_head: Any,
) -> _Array:
    """(H, R, C): sums over cells that are counted from the prompt's first row and key."""
    if numbers.pooled is not None:
        tall, wide = -(-len(share.rows) // cell), -(-len(share.keys) // cell)
        return np.asarray(per_head(numbers.pooled)[:, :tall, :wide])
    columns = (np.arange(keys.stop - keys.start) + share.key_start) // cell
    if attention._call.shape.queries == 1 and len(columns):
        received = per_head(numbers.received)[:, keys]
        return np.add.reduceat(received, np.flatnonzero(np.diff(columns, prepend=-1)), axis=1)[
            :, None
        ]
    first = share.key_start // cell
    indicator = np.zeros((attention.shape[-1], columns[-1] - first + 1 if len(columns) else 0))
    indicator[np.arange(keys.start, keys.stop), columns - first] = 1
    mass = attention @ torch.as_tensor(indicator, dtype=attention.dtype, device=attention.device)
    by_row = mass.reshape(-1, attention._call.shape.query_heads, *mass.shape[-2:])
    picked = per_head(by_row.float().cpu().numpy())[:, rows]
    at = (np.arange(picked.shape[1]) + row_start) // cell
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    if not len(starts):
        return picked[:, :0]
    return np.add.reduceat(picked, starts, axis=1)


def _rules(call: Call, share: Share, down: int) -> tuple[Rules, bool, bool]:
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
