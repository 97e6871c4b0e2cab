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
from regard.mask import Mask
from regard.mask.part import Part
from regard.recorder.ledger import Page
from regard.recorder.measure import Measured, Wanted, measured
from regard.recorder.rules import Rules, follows, rules_for, without_padding
from regard.score import PartBias

__all__ = ["Share", "read_pages"]

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

    @property
    def whole(self) -> bool:
        """Whether every real row is recorded."""
        return self.kept == self.rows


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
            if share.whole:
                if everything is None:
                    everything = measured(attention, wanted, output, value)
                pages.append(_page(attention, everything, wanted, share, cell, 0))
            else:
                part = _narrowed(call, share)
                rows = slice(share.kept.start, share.kept.stop)
                flat_output, flat_value = (_flat(t) for t in (output, value))
                entries = slice(share.first, share.first + share.count)
                alone = replace(share, first=0)
                numbers = measured(
                    part, replace(wanted, cell=0, duplicate=None, prefix=None),
                    flat_output[entries, :, rows], flat_value[entries],
                )  # fmt: skip
                pages.append(_page(part, numbers, wanted, alone, cell, share.kept.start))
    return pages


def _flat(tensor: Tensor) -> Tensor:
    """(*batch, H, N, D) → (E, H, N, D); what has no heads gets one."""
    wide = tensor.unsqueeze(0) if tensor.ndim == 2 else tensor
    return wide.reshape(-1, *wide.shape[-3:])


def _narrowed(call: Call, share: Share) -> Attention:
    """The attention of the recorded rows alone."""
    entries = slice(share.first, share.first + share.count)
    rows = slice(share.kept.start, share.kept.stop)
    place = (share.kept.start, 0, call.shape.queries, call.shape.keys)
    entry = _entry(call, share.first)
    mask = None if call.mask is None else Part(call.mask.select(entry), *place)
    score = call.score.select(entry)
    bias = None if score.bias is None else PartBias(score.bias, *place)
    query, key = _flat(call.query)[entries, :, rows], _flat(call.key)[entries]
    if share.count == 1:  # the rules above speak of one entry
        query, key = query[0], key[0]
    return replay(
        query, key, mask=mask, bias=bias, scale=score.scale, softcap=score.softcap, sink=score.sink
    )


def _entry(call: Call, number: int) -> tuple[int, ...]:
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
        return array[entries].reshape(-1, *array.shape[2:])[heads]

    row_start = share.row_start + (share.kept.start - share.rows.start)
    queries = numbers.normalized.shape[-1]
    shift = row_start - (rows.start) - share.key_start + keys.start + queries - 1
    seen = numbers.visible[entries if len(numbers.visible) > 1 else slice(0, 1)]
    seen = np.broadcast_to(seen, (share.count, call.shape.query_heads, queries))
    new = min(share.key_start + len(share.keys) - share.known_keys, len(share.keys))
    fresh = slice(share.keys.stop - new, share.keys.stop)
    top_keys = per_head(numbers.top_keys)[:, rows]
    moved = np.where(top_keys < 0, -1, top_keys + share.key_start - keys.start)
    rules, joins, step = _rules(call, share, down)
    return Page(
        rows={name: per_head(value)[:, rows] for name, value in numbers.rows.items()}
        | {"first": _first(attention, share)[heads][:, rows]},
        normalized=per_head(numbers.normalized)[:, rows],
        visible=seen.reshape(-1, queries)[heads][:, rows],
        top_weights=per_head(numbers.top_weights)[:, rows],
        top_keys=moved.astype(np.int32),
        received=per_head(numbers.received)[:, keys],
        offsets=per_head(numbers.offsets),
        offset_shift=shift,
        pooled=_pooled(attention, numbers, share, cell, rows, keys, row_start, per_head),
        value_norm=_key_heads(numbers.value_norm, entries)[:, fresh],
        query=_words(call.query, entries, rows, heads) if share.exact else None,
        key=_words(call.key, entries, fresh, None) if share.exact else None,
        row_start=row_start,
        key_start=share.key_start,
        new_keys=max(new, 0),
        rules=rules,
        joins=joins,
        causal_step=step,
    )


def _first(attention: Attention, share: Share) -> _Array:
    """(count × H, L): the weight of the prompt's first key in every row; 0 where it is gone from
    a sliding cache."""
    shape = attention._call.shape
    heads, queries = share.count * shape.query_heads, shape.queries
    if share.key_start > 0 or not len(share.keys):
        return np.zeros((heads, queries), np.float32)
    column = attention[..., share.keys.start].float().cpu().numpy()
    return column.reshape(-1, shape.query_heads, queries)[
        share.first : share.first + share.count
    ].reshape(heads, queries)


def _key_heads(array: _Array, entries: slice) -> _Array:
    """(E, K, S) → (count × K, S)."""
    return array[entries].reshape(-1, array.shape[-1])


def _words(
    tensor: Tensor, entries: slice, tokens: slice, heads: list[int] | None
) -> tuple[_Array, str | None]:
    """(heads, tokens, D) on the host, bf16 as its 16-bit words."""
    flat = _flat(tensor)[entries, :, tokens].flatten(0, 1)
    picked = flat if heads is None else flat[heads]
    plain = picked.detach().cpu().contiguous()
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
        return np.asarray(per_head(numbers.pooled))
    columns = (np.arange(keys.stop - keys.start) + share.key_start) // cell
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
    mask: Mask | None = call.mask
    whole = (call.shape.queries, call.shape.keys)
    rows = range(share.kept.start - down, share.kept.stop - down)
    cut = (len(rows), len(share.keys)) != whole
    if cut:
        mask = without_padding(mask)
    joins = follows(mask, len(rows)) and share.kind == "self"
    same_end = whole[0] - rows.stop == whole[1] - share.keys.stop
    extent = call.shape.extent
    bias = call.score.bias
    place = (rows.start, share.keys.start, *whole)
    if cut and not (joins and same_end) and mask is not None:
        mask = Part(mask, *place)
    score = call.score
    if cut and bias is not None:
        score = replace(score, bias=PartBias(bias, *place))
    extent = replace(extent, queries=len(rows), keys=len(share.keys))
    found = rules_for(mask, score, extent, _entry(call, share.first))
    step = (
        mask is None
        and len(rows) == 1
        and share.kind == "self"
        and share.key_start == 0
        and len(share.keys) == share.row_start + (rows.start - (share.rows.start - down)) + 1
    )
    return found, joins and (not cut or same_end), step
